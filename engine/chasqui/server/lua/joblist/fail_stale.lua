-- Put a job that kills its workers among the failed ones, if its claim is still the one that was found stale.
-- KEYS: job processing failed
-- ARGV: id token claimed now_ms error ttl_s history
-- Returns: 1 failed, 0 not the same any more.
local job, processing, failed = KEYS[1], KEYS[2], KEYS[3]
local id, token, claimed, now_ms, error, ttl_s, history = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local found = redis.call('HMGET', job, 'claim_token', 'claimed_at_ms')
local same = (found[1] or '') == token and (found[2] or '') == claimed
if not same or not redis.call('LPOS', processing, id) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('LTRIM', failed, 0, -1), "no permissions to run the 'ltrim' command")
assert(redis.acl_check_cmd('LREM', processing, 1, id), "no permissions to run the 'lrem' command")
assert(redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', job, ttl_s), "no permissions to run the 'expire' command")
redis.call('LPUSH', failed, id)
redis.call('LTRIM', failed, 0, history - 1)
redis.call('LREM', processing, 1, id)
redis.call('HSET', job, 'status', 'failed', 'last_error', error, 'last_error_at_ms', now_ms, 'claim_token', '')
redis.call('EXPIRE', job, ttl_s)
return 1
