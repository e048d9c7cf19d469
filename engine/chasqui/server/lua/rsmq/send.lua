-- Send a message, or put one back unchanged, while the queue exists: dropped meanwhile, it does not come back as a ghost.
-- The id is the caller's; sent again after a lost reply it adds nothing.
-- KEYS: messages hash
-- ARGV: id score body receives first_ms
-- Returns: {1 sent or 0 the id is there already, messages}, nothing when there is no queue. `receives` and `first_ms` are empty for a new message.
local messages, hash = KEYS[1], KEYS[2]
local id, score, body, receives, first_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if redis.call('HEXISTS', hash, 'vt') == 0 then
  return false
end
if redis.call('ZSCORE', messages, id) then
  return {0, redis.call('ZCARD', messages)}
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZADD', messages, score, id), "no permissions to run the 'zadd' command")
assert(redis.acl_check_cmd('ZCARD', messages), "no permissions to run the 'zcard' command")
redis.call('HSET', hash, id, body)
if receives ~= '' then
  redis.call('HSET', hash, id .. ':rc', receives)
end
if first_ms ~= '' then
  redis.call('HSET', hash, id .. ':fr', first_ms)
end
redis.call('ZADD', messages, score, id)
redis.pcall('HINCRBY', hash, 'totalsent', 1)
return {1, redis.call('ZCARD', messages)}
