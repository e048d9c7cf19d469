-- Undo the deletion of a dead letter, once: `undone` remembers which dead letters an undo has restored already.
-- A dead letter that took its place (`instead`, or nothing) goes in the same step; if it is gone, its job lives elsewhere.
-- KEYS: dlq undone
-- ARGV: ttl_s dead_id instead fields...
-- Returns: the id of the dead letter, or "already" when it is back or never went, or "gone" when what took its place went on.
local dlq, undone = KEYS[1], KEYS[2]
local ttl_s, dead_id, instead = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HEXISTS', undone, dead_id) == 1 or #redis.call('XRANGE', dlq, dead_id, dead_id) > 0 then
  return 'already'
end
if instead ~= '' and #redis.call('XRANGE', dlq, instead, instead) == 0 then
  return 'gone'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HSET', undone, dead_id, ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', undone, ttl_s), "no permissions to run the 'expire' command")
assert(redis.acl_check_cmd('XDEL', dlq, dead_id), "no permissions to run the 'xdel' command")
local new_id = redis.call('XADD', dlq, '*', unpack(ARGV, 4))
redis.call('HSET', undone, dead_id, new_id)
redis.call('EXPIRE', undone, ttl_s)
if instead ~= '' then
  redis.call('XDEL', dlq, instead)
end
return new_id
