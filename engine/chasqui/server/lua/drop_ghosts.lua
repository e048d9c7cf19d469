-- Acknowledge pending rows whose entry was deleted: no read hands them out and nothing else ever removes them.
-- KEYS: stream
-- ARGV: group after count
-- Returns: {rows removed, the last id looked at}; look on after it until it is empty.
local stream = KEYS[1]
local group, after, count = ARGV[1], ARGV[2], ARGV[3]

local removed, last = 0, ''
for _, row in ipairs(redis.call('XPENDING', stream, group, after, '+', count)) do
  last = row[1]
  if #redis.call('XRANGE', stream, last, last) == 0 then
    removed = removed + redis.call('XACK', stream, group, last)
  end
end
return {removed, last}
