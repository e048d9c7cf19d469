-- Delete messages by id, whatever their state: RSMQ knows no receipts.
-- KEYS: messages hash
-- ARGV: ids...
-- Returns: for each id {1 when it was a message, fields removed}.
local messages, hash = KEYS[1], KEYS[2]

local results = {}
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HDEL', hash, ''), "no permissions to run the 'hdel' command")
redis.call('HLEN', hash)
for i = 1, #ARGV do
  local id = ARGV[i]
  results[i] = {redis.call('ZREM', messages, id), redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')}
end
return results
