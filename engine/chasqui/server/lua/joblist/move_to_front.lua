-- Let a pending job be the next one to be claimed.
-- KEYS: pending
-- ARGV: id
-- Returns: 1 it is, 0 it is not pending.
local pending = KEYS[1]
local id = ARGV[1]

if not redis.call('LPOS', pending, id) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('RPUSH', pending, id), "no permissions to run the 'rpush' command")
redis.call('LREM', pending, 0, id)
redis.call('RPUSH', pending, id)
return 1
