#!lua flags=no-writes
-- Find pending rows whose entry was deleted: no read hands them out, and only an acknowledgement removes them.
-- KEYS: stream
-- ARGV: group after count
-- Returns: {rows looked at, the last id looked at, the pending rows without an entry}; look on after it until it is empty.
local stream = KEYS[1]
local group, after, count = ARGV[1], ARGV[2], ARGV[3]

local looked, last, ghosts = 0, '', {}
for _, row in ipairs(redis.call('XPENDING', stream, group, after, '+', count)) do
  looked, last = looked + 1, row[1]
  if #redis.call('XRANGE', stream, last, last) == 0 then
    ghosts[#ghosts + 1] = row
  end
end
return {looked, last, ghosts}
