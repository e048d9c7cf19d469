-- Hand back entries that were delivered but never started, as if they had not been delivered: another consumer may
-- claim them at once, and the delivery is not counted. Entries that are no longer this consumer's are left alone.
-- KEYS: stream
-- ARGV: group consumer released idle_ms entry_ids...
-- Returns: how many were handed back.
local stream = KEYS[1]
local group, consumer, released, idle_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local handed_back = 0
for i = 5, #ARGV do
  local row = redis.call('XPENDING', stream, group, ARGV[i], ARGV[i], 1, consumer)[1]
  if row then
    local count = math.max(0, row[4] - 1)
    local moved = redis.call('XCLAIM', stream, group, released, 0, ARGV[i], 'IDLE', idle_ms, 'RETRYCOUNT', count, 'JUSTID')
    handed_back = handed_back + #moved
  end
end
return handed_back
