-- Write down who claimed a job whose id was just moved to the processing list. If a reclaimer was quicker and put it
-- back, it is not ours: two would run it.
-- KEYS: job processing
-- ARGV: id token now_ms
-- Returns: all fields and values of the job, nothing when its id is not in the processing list any more.
local job, processing = KEYS[1], KEYS[2]
local id, token, now_ms = ARGV[1], ARGV[2], ARGV[3]

if not redis.call('LPOS', processing, id) then
  return false
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HGETALL', job), "no permissions to run the 'hgetall' command")
redis.call('HSET', job, 'status', 'processing', 'claimed_at_ms', now_ms, 'claim_token', token)
redis.pcall('HINCRBY', job, 'attempts', 1)
return redis.call('HGETALL', job)
