-- Put a repeatable job back to what it was before it was stored or removed, once per operation, and only if it is
-- still as that left it. How often it fired is kept; only one that was removed gets its count back.
-- KEYS: repeats spec undone
-- ARGV: key left data next_ms fired ttl_s
-- Returns: "restored", "already", or "changed" when it was changed since. `left` are the bytes that were left (none: it was removed); without `next_ms` there was none before.
local repeats, spec, undone = KEYS[1], KEYS[2], KEYS[3]
local key, left, data, next_ms, fired, ttl_s = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local current = redis.call('HGET', spec, 'spec') or ''
local scheduled = redis.call('ZSCORE', repeats, key)
if redis.call('EXISTS', undone) == 1 then
  return 'already'
end
if current ~= left or (left == '' and scheduled) then
  return current == data and (not scheduled) == (next_ms == '') and 'already' or 'changed'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', undone, '1'), "no permissions to run the 'set' command")
assert(next_ms ~= '' or redis.acl_check_cmd('DEL', spec), "no permissions to run the 'del' command")
assert(next_ms == '' or redis.acl_check_cmd('ZADD', repeats, 0, key), "no permissions to run the 'zadd' command")
if next_ms == '' then
  redis.call('ZREM', repeats, key)
  redis.call('DEL', spec)
else
  if data ~= '' then
    redis.call('HSET', spec, 'spec', data)
  end
  if left == '' and fired ~= '' then
    redis.call('HSET', spec, 'fired', fired)
  end
  redis.call('ZADD', repeats, next_ms, key)
end
redis.call('SET', undone, '1', 'EX', ttl_s)
return 'restored'
