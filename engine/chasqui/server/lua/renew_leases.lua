-- Keep jobs: set the idle time of entries back to zero, but only of those this consumer still owns.
-- A plain XCLAIM would steal them back from a consumer that took them over meanwhile.
-- KEYS: stream
-- ARGV: group consumer entry_ids...
-- Returns: the ids of the entries that are lost: settled, deleted or another consumer's.
local stream = KEYS[1]
local group, consumer = ARGV[1], ARGV[2]

local lost = {}
for i = 3, #ARGV do
  local id = ARGV[i]
  local mine = #redis.call('XPENDING', stream, group, id, id, 1, consumer) == 1
  if not mine or #redis.call('XCLAIM', stream, group, consumer, 0, id, 'JUSTID') == 0 then
    lost[#lost + 1] = id
  end
end
return lost
