#!lua flags=no-writes
-- Read a stream on from an id, together with how far it reaches at that very moment: so that a gap is noticed.
-- KEYS: stream
-- ARGV: after count
-- Returns: {length, first id, last id ever given, entries ever added, entries}; nothing when there is no stream.
local stream = KEYS[1]
local after, count = ARGV[1], ARGV[2]

if redis.call('EXISTS', stream) == 0 then
  return false
end
local info, row = {}, redis.call('XINFO', 'STREAM', stream)
for i = 1, #row, 2 do
  info[row[i]] = row[i + 1]
end
local first = info['first-entry'] and info['first-entry'][1]
local entries = redis.call('XRANGE', stream, '(' .. after, '+', 'COUNT', count)
return {info['length'], first, info['last-generated-id'], info['entries-added'], entries or {}}
