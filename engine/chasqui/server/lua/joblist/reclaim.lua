-- Put a job whose worker is gone back on the pending list, if its claim is still the one that was found stale.
-- KEYS: job processing pending
-- ARGV: id token claimed now_ms
-- Returns: 1 back on the list, 0 not the same any more. `token` and `claimed` are the values that were seen, empty when missing.
local job, processing, pending = KEYS[1], KEYS[2], KEYS[3]
local id, token, claimed, now_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local found = redis.call('HMGET', job, 'claim_token', 'claimed_at_ms')
local same = (found[1] or '') == token and (found[2] or '') == claimed
if not same or not redis.call('LPOS', processing, id) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('LREM', processing, 1, id), "no permissions to run the 'lrem' command")
assert(redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
redis.call('LPUSH', pending, id)
redis.call('LREM', processing, 1, id)
redis.call('HSET', job, 'status', 'pending', 'reclaimed_at_ms', now_ms, 'claim_token', '', 'claimed_at_ms', '0')
return 1
