-- Stands in for read_ready where XREADGROUP has no CLAIM: looks through the pending entries for abandoned ones.
-- Like it, it passes over pending rows whose entry was deleted, and makes the consumer known even when there is
-- nothing to read: an idle worker should be seen.
-- KEYS: stream
-- ARGV: group consumer count idle_ms
-- Returns: a list of {entry id, fields, idle ms, deliveries that count so far}; new entries carry 0 and 0.
local stream = KEYS[1]
local group, consumer, count, idle_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

redis.call('XGROUP', 'CREATECONSUMER', stream, group, consumer)
local wanted, ready, from = tonumber(count), {}, '-'
repeat
  local rows = redis.call('XPENDING', stream, group, 'IDLE', idle_ms, from, '+', 100)
  for _, row in ipairs(rows) do
    local id, idle, delivered = row[1], row[3], row[4]
    local entry = #ready < wanted and redis.call('XRANGE', stream, id, id)[1]
    if entry then
      redis.call('XCLAIM', stream, group, consumer, 0, id, 'RETRYCOUNT', math.max(delivered, 1), 'JUSTID')
      ready[#ready + 1] = {id, entry[2], idle, delivered}
    end
    from = '(' .. id
  end
until #rows < 100 or #ready == wanted

if #ready < wanted then
  local streams = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', wanted - #ready, 'STREAMS', stream, '>')
  for _, entry in ipairs(streams and streams[1][2] or {}) do
    ready[#ready + 1] = {entry[1], entry[2], 0, 0}
  end
end
return ready
