-- Forget a job that has arrived at another server.
-- KEYS: job parked
-- ARGV: id
-- Returns: 1 forgotten, 0 it was not on its way.
local job, parked = KEYS[1], KEYS[2]
local id = ARGV[1]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('DEL', job), "no permissions to run the 'del' command")
if redis.call('LREM', parked, 0, id) == 0 then
  return 0
end
redis.call('DEL', job)
return 1
