-- Complete a job, given its claim token. As in the guide the token stays, so the same call succeeds again.
-- KEYS: job processing completed
-- ARGV: id token result now_ms ttl_s history
-- Returns: 1 completed, 0 the token is not, or no longer, the job's.
local job, processing, completed = KEYS[1], KEYS[2], KEYS[3]
local id, token, result, now_ms, ttl_s, history = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('HGET', job, 'claim_token') ~= token then
  return 0
end
redis.call('LLEN', completed)
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', job, ttl_s), "no permissions to run the 'expire' command")
assert(redis.acl_check_cmd('LPUSH', completed, id), "no permissions to run the 'lpush' command")
assert(redis.acl_check_cmd('LTRIM', completed, 0, -1), "no permissions to run the 'ltrim' command")
redis.call('LREM', processing, 1, id)
redis.call('HSET', job, 'status', 'completed', 'completed_at_ms', now_ms, 'result', result)
redis.call('EXPIRE', job, ttl_s)
redis.call('LPUSH', completed, id)
redis.call('LTRIM', completed, 0, history - 1)
return 1
