#!lua flags=no-writes
-- Count messages by state, some at a time: hidden ones were received (in flight) or never yet (delayed).
-- KEYS: messages hash
-- ARGV: now_ms skip count
-- Returns: {messages, hidden, in flight among the looked at, looked at}.
local messages, hash = KEYS[1], KEYS[2]
local now_ms, skip, count = ARGV[1], ARGV[2], ARGV[3]

local all = redis.call('ZCARD', messages)
local hidden = redis.call('ZCOUNT', messages, '(' .. now_ms, '+inf')
local start = all - hidden + skip
local found = redis.call('ZRANGE', messages, start, start + count - 1)
local in_flight = 0
for _, id in ipairs(found) do
  in_flight = in_flight + redis.call('HEXISTS', hash, id .. ':rc')
end
return {all, hidden, in_flight, #found}
