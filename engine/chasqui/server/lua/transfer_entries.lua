-- Give entries to another consumer, or to oneself again, with the deliveries that shall count: one less for an entry that
-- was not started, one more for one that is about to be. Entries that are no longer this consumer's are left alone.
-- KEYS: stream
-- ARGV: group consumer heir idle_ms entries...
-- Returns: the ids that were handed over. An entry is (entry id, deliveries).
local stream = KEYS[1]
local group, consumer, heir, idle_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local handed_over = {}
for i = 5, #ARGV, 2 do
  local id, deliveries = ARGV[i], ARGV[i + 1]
  if #redis.call('XPENDING', stream, group, id, id, 1, consumer) == 1 then
    local moved = redis.call('XCLAIM', stream, group, heir, 0, id, 'IDLE', idle_ms, 'RETRYCOUNT', deliveries, 'JUSTID')
    handed_over[#handed_over + 1] = moved[1]
  end
end
return handed_over
