-- Cancel a job that was scheduled with an id and has not become due yet.
-- KEYS: delayed index marker
-- ARGV:
-- Returns: 1 cancelled, 0 there is no such delayed job (any more).
local delayed, index, marker = KEYS[1], KEYS[2], KEYS[3]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('DEL', index, marker), "no permissions to run the 'del' command")
local member = redis.call('GET', index)
if not member or redis.call('ZREM', delayed, member) == 0 then
  return 0
end
redis.call('DEL', index, marker)
return 1
