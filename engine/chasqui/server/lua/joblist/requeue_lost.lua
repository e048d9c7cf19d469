-- Give a job that is in no list its place on the pending list again, unless it was found a place meanwhile. One that
-- is completed or failed fell out of a history that was full: it is over.
-- KEYS: job pending processing completed failed parked
-- ARGV: id
-- Returns: 1 it waits again, 0 not.
local job, pending, processing, completed, failed, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local id = ARGV[1]

for _, list in ipairs({pending, processing, completed, failed, parked}) do
  if redis.call('LPOS', list, id) then
    return 0
  end
end
local status = redis.call('HGET', job, 'status')
if status == 'completed' or status == 'failed' or redis.call('HEXISTS', job, 'payload') == 0 then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('PERSIST', job), "no permissions to run the 'persist' command")
assert(redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
redis.call('LPUSH', pending, id)
redis.call('PERSIST', job)
redis.call('HSET', job, 'status', 'pending', 'claim_token', '', 'claimed_at_ms', '0')
return 1
