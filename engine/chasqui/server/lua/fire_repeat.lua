-- Fire a repeatable job and say when it is next, or remove it when it is through.
-- The score the caller reckoned with must still stand: of two schedulers only one fires, and a second run finds the
-- next score. The reads before the first write meet a wrong type while nothing has changed yet.
-- KEYS: stream delayed repeats spec
-- ARGV: key due_ms next_ms limit end_before_ms cap fires...
-- Returns: {fires, 1 when the spec was removed}, nothing when the score has changed. A fire is (fire_at_ms, d, name).
local stream, delayed, repeats, spec = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local key, due_ms, next_ms, limit, end_before_ms, cap = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local score = redis.call('ZSCORE', repeats, key)
if not score or math.floor(score) ~= tonumber(due_ms) then
  return false
end
local fired = tonumber(redis.call('HGET', spec, 'fired') or 0)
if not fired or fired % 1 ~= 0 then
  return redis.error_reply('ERR the fire counter of this spec is not a whole number')
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('XLEN', stream)
for i = 7, #ARGV, 3 do
  if tonumber(ARGV[i]) > now then
    redis.call('ZCARD', delayed)
  end
end

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HINCRBY', spec, 'fired', 1), "no permissions to run the 'hincrby' command")
assert(redis.acl_check_cmd('ZADD', repeats, 0, key), "no permissions to run the 'zadd' command")
assert(redis.acl_check_cmd('ZREM', repeats, key), "no permissions to run the 'zrem' command")
assert(redis.acl_check_cmd('DEL', spec), "no permissions to run the 'del' command")
limit, next_ms, end_before_ms = tonumber(limit), tonumber(next_ms), tonumber(end_before_ms)
local fires = 0
for i = 7, #ARGV, 3 do
  local fire_at_ms, d, name = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if limit > 0 and fired >= limit then
    break
  end
  if tonumber(fire_at_ms) <= now then
    redis.call('XADD', stream, 'MAXLEN', '~', cap, '*', 'd', d, unpack(name ~= '' and {'n', name} or {}))
  else
    redis.call('ZADD', delayed, fire_at_ms, struct.pack('<I4', #name) .. name .. d)
  end
  fired = redis.call('HINCRBY', spec, 'fired', 1)
  fires = fires + 1
end

local limit_reached = limit > 0 and fired >= limit
if limit_reached or next_ms == 0 or (end_before_ms > 0 and next_ms > end_before_ms) then
  redis.call('ZREM', repeats, key)
  redis.call('DEL', spec)
  return {fires, 1}
end
redis.call('ZADD', repeats, ARGV[3], key)
return {fires, 0}
