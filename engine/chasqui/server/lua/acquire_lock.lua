#!lua flags=allow-oom
-- Take a free lock, or extend it when it is ours.
-- KEYS: lock
-- ARGV: holder ttl_s
-- Returns: {1 ours or 0 another's, the holder, ms until it ends (-1: never)}.
local lock = KEYS[1]
local holder, ttl_s = ARGV[1], ARGV[2]

local current = redis.call('GET', lock)
if current and current ~= holder then
  return {0, current, redis.call('PTTL', lock)}
end
redis.call('SET', lock, holder, 'EX', ttl_s)
return {1, holder, redis.call('PTTL', lock)}
