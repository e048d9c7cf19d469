-- Put one field of a queue right, if it still holds what was seen in it.
-- KEYS: hash
-- ARGV: field seen value
-- Returns: 1 changed, 0 not the same any more. `seen` is empty for a field that is missing.
local hash = KEYS[1]
local field, seen, value = ARGV[1], ARGV[2], ARGV[3]

if (redis.call('HGET', hash, field) or '') ~= seen then
  return 0
end
redis.call('HSET', hash, field, value)
return 1
