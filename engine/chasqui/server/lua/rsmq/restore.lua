-- Undo the deletion of a message, once: `undone` remembers which messages an undo has brought back already.
-- KEYS: messages hash undone
-- ARGV: ttl_s id score body receives first_ms
-- Returns: 1 it is back, 0 it is there, or was brought back before, -1 there is no queue. `receives` and `first_ms` are empty where there were none.
local messages, hash, undone = KEYS[1], KEYS[2], KEYS[3]
local ttl_s, id, score, body, receives, first_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if redis.call('HEXISTS', hash, 'vt') == 0 then
  return -1
end
if redis.call('HEXISTS', undone, id) == 1 or redis.call('ZSCORE', messages, id) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZADD', messages, score, id), "no permissions to run the 'zadd' command")
assert(redis.acl_check_cmd('HSET', undone, id, score), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', undone, ttl_s), "no permissions to run the 'expire' command")
redis.call('HSET', hash, id, body)
if receives ~= '' then
  redis.call('HSET', hash, id .. ':rc', receives)
end
if first_ms ~= '' then
  redis.call('HSET', hash, id .. ':fr', first_ms)
end
redis.call('ZADD', messages, score, id)
redis.call('HSET', undone, id, score)
redis.call('EXPIRE', undone, ttl_s)
return 1
