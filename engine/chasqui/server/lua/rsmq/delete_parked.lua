-- Forget messages that have arrived at another server.
-- KEYS: parked hash
-- ARGV: ids...
-- Returns: how many there were.
local parked, hash = KEYS[1], KEYS[2]

local removed = 0
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HDEL', hash, ''), "no permissions to run the 'hdel' command")
redis.call('HLEN', hash)
for i = 1, #ARGV do
  local id = ARGV[i]
  if redis.call('ZREM', parked, id) == 1 then
    redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')
    removed = removed + 1
  end
end
return removed
