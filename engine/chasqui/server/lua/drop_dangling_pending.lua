-- Acknowledge pending rows whose entry was deleted: no read hands them out and nothing else ever removes them.
-- KEYS: stream
-- ARGV: group ids...
-- Returns: the ids that were removed; those whose entry is there, and those that are pending no more, are left alone.
local stream = KEYS[1]
local group = ARGV[1]

local removed = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  if #redis.call('XRANGE', stream, id, id) == 0 and redis.call('XACK', stream, group, id) == 1 then
    removed[#removed + 1] = id
  end
end
return removed
