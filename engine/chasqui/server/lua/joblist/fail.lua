-- Fail a job, given its claim token: back to the end of the queue, or among the failed ones for a while.
-- KEYS: job processing pending failed
-- ARGV: id token error now_ms ttl_s history retry
-- Returns: 1 it will be tried again, 2 it failed for good, 0 the token is not, or no longer, the job's.
local job, processing, pending, failed = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, token, error, now_ms, ttl_s, history, retry = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

if redis.call('HGET', job, 'claim_token') ~= token then
  return 0
end
redis.call('LLEN', pending)
redis.call('LLEN', failed)
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('LPUSH', retry == '1' and pending or failed, id), "no permissions to run the 'lpush' command")
assert(retry == '1' or redis.acl_check_cmd('LTRIM', failed, 0, -1), "no permissions to run the 'ltrim' command")
assert(retry == '1' or redis.acl_check_cmd('EXPIRE', job, ttl_s), "no permissions to run the 'expire' command")
redis.call('LREM', processing, 1, id)
redis.call('HSET', job, 'last_error', error, 'last_error_at_ms', now_ms, 'claim_token', '')
if retry == '1' then
  redis.call('HSET', job, 'status', 'pending', 'claimed_at_ms', '0')
  redis.call('LPUSH', pending, id)
  return 1
end
redis.call('HSET', job, 'status', 'failed')
redis.call('LPUSH', failed, id)
redis.call('LTRIM', failed, 0, history - 1)
redis.call('EXPIRE', job, ttl_s)
return 2
