-- Hand out what can be had without waiting: entries abandoned by other consumers first, then new ones.
-- Being claimed is not a start, so the count of an abandoned entry is put back to what it was; one that was handed back
-- unstarted counts 1 from now on, like a new one. In one script: a worker may be killed at any moment in between.
-- KEYS: stream
-- ARGV: group consumer count idle_ms
-- Returns: a list of {entry id, fields, idle ms, deliveries that count so far}; new entries carry 0 and 0.
local stream = KEYS[1]
local group, consumer, count, idle_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- Each claim counts as a delivery until that is taken back, so nothing is claimed without the right to take it back.
assert(redis.acl_check_cmd('XCLAIM', stream, group, consumer, 0, '0-1'), "no permissions to run the 'xclaim' command")
local streams = redis.call(
  'XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'CLAIM', idle_ms, 'STREAMS', stream, '>'
)
local ready = streams and streams[1][2] or {}
for _, row in ipairs(ready) do
  local id, delivered = row[1], row[4]
  if delivered > 0 then
    redis.call('XCLAIM', stream, group, consumer, 0, id, 'RETRYCOUNT', delivered, 'JUSTID')
  end
end
return ready
