-- Remove consumers from a group, but none that has pending entries: those would be lost with it.
-- KEYS: stream
-- ARGV: group consumers...
-- Returns: the consumers that were kept.
local stream = KEYS[1]
local group = ARGV[1]

local kept = {}
for i = 2, #ARGV do
  if #redis.call('XPENDING', stream, group, '-', '+', 1, ARGV[i]) == 0 then
    redis.call('XGROUP', 'DELCONSUMER', stream, group, ARGV[i])
  else
    kept[#kept + 1] = ARGV[i]
  end
end
return kept
