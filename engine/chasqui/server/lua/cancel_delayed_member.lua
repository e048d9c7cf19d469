-- Take one delayed job out of the set by its exact bytes, and forget its id, if it was this job's: it may come again.
-- KEYS: delayed index marker
-- ARGV: member
-- Returns: 1 taken out, 0 it is not there (any more).
local delayed, index, marker = KEYS[1], KEYS[2], KEYS[3]
local member = ARGV[1]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('DEL', index, marker), "no permissions to run the 'del' command")
local indexed = redis.call('GET', index)
if redis.call('ZREM', delayed, member) == 0 then
  return 0
end
if indexed == member then
  redis.call('DEL', index, marker)
end
return 1
