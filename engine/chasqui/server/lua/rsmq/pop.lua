-- Receive the first message that may be received now and delete it in the same step. Should the reply be lost, so is
-- the message: that is what popping means.
-- KEYS: messages hash
-- ARGV: now_ms
-- Returns: {id, body, receives, first received ms}, nothing when there is none.
local messages, hash = KEYS[1], KEYS[2]
local now_ms = ARGV[1]

local id = redis.call('ZRANGEBYSCORE', messages, '-inf', now_ms, 'LIMIT', 0, 1)[1]
if not id then
  return false
end
local found = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZREM', messages, id), "no permissions to run the 'zrem' command")
assert(redis.acl_check_cmd('HDEL', hash, id), "no permissions to run the 'hdel' command")
redis.pcall('HINCRBY', hash, 'totalrecv', 1)
local receives = (tonumber(found[2]) or 0) + 1
redis.call('ZREM', messages, id)
redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')
return {id, found[1], receives, receives == 1 and now_ms or found[3]}
