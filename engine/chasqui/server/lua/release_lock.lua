-- Give a lease up, if this holder still has it.
-- KEYS: lock
-- ARGV: holder
-- Returns: 1 given up, 0 it was not this holder's.
local lock = KEYS[1]
local holder = ARGV[1]

if redis.call('GET', lock) ~= holder then
  return 0
end
return redis.call('DEL', lock)
