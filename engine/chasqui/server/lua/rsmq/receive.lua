-- Receive the first message that may be received now, and hide it for a while. Counters that are not numbers are left
-- as they are: a message is not lost to its queue for the sake of a count.
-- KEYS: messages hash
-- ARGV: now_ms until_ms
-- Returns: {id, body, receives, first received ms}, nothing when there is none; what is missing or unreadable is nothing.
local messages, hash = KEYS[1], KEYS[2]
local now_ms, until_ms = ARGV[1], ARGV[2]

local id = redis.call('ZRANGEBYSCORE', messages, '-inf', now_ms, 'LIMIT', 0, 1)[1]
if not id then
  return false
end
local body = redis.call('HGET', hash, id)
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HSET', hash, id, ''), "no permissions to run the 'hset' command")
redis.call('ZADD', messages, until_ms, id)
redis.pcall('HINCRBY', hash, 'totalrecv', 1)
local receives = redis.pcall('HINCRBY', hash, id .. ':rc', 1)
if receives == 1 then
  redis.call('HSET', hash, id .. ':fr', now_ms)
end
return {id, body, type(receives) == 'number' and receives, redis.call('HGET', hash, id .. ':fr')}
