-- Let an id that is in a list several times be there once, at the place nearest to the tail.
-- KEYS: list
-- ARGV: id
-- Returns: how many were too many.
local list = KEYS[1]
local id = ARGV[1]

local places = redis.call('LPOS', list, id, 'COUNT', 0)
if #places < 2 then
  return 0
end
return redis.call('LREM', list, #places - 1, id)
