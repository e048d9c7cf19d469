-- Delete a job, its id and its hash, if it is still in this list.
-- KEYS: job list
-- ARGV: id
-- Returns: 1 deleted, 0 it is not in the list any more.
local job, list = KEYS[1], KEYS[2]
local id = ARGV[1]

if not redis.call('LPOS', list, id) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('LREM', list, 0, id), "no permissions to run the 'lrem' command")
redis.call('DEL', job)
redis.call('LREM', list, 0, id)
return 1
