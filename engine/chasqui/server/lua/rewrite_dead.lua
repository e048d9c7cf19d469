-- Put a dead letter in the place of another: the new one is written, then the old one is deleted.
-- A second run finds the old one gone and writes nothing.
-- KEYS: dlq
-- ARGV: dead_id fields...
-- Returns: the id of the new dead letter, nothing when the old one is gone.
local dlq = KEYS[1]
local dead_id = ARGV[1]

if #redis.call('XRANGE', dlq, dead_id, dead_id) == 0 then
  return false
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XDEL', dlq, dead_id), "no permissions to run the 'xdel' command")
local new_id = redis.call('XADD', dlq, '*', unpack(ARGV, 2))
redis.call('XDEL', dlq, dead_id)
return new_id
