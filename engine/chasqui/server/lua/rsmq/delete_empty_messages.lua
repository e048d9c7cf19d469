-- Remove messages that have no body, each only if that is still so.
-- KEYS: messages hash
-- ARGV: ids...
-- Returns: how many were removed.
local messages, hash = KEYS[1], KEYS[2]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HDEL', hash, ''), "no permissions to run the 'hdel' command")
local removed = 0
for i = 1, #ARGV do
  local id = ARGV[i]
  if redis.call('HEXISTS', hash, id) == 0 then
    removed = removed + redis.call('ZREM', messages, id)
    redis.call('HDEL', hash, id .. ':rc', id .. ':fr')
  end
end
return removed
