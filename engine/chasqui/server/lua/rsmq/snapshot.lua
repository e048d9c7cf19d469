#!lua flags=no-writes
-- Look at a whole RSMQ queue at one moment, by the server's clock. No byte of any message leaves the server, and a key
-- of another type is reported by its type and otherwise left alone.
-- KEYS: messages hash queues parked
-- ARGV: name sample
-- Returns: {now ms, types of the keys, {messages, hidden, in flight among the first `sample` hidden, looked at, first score}, {vt, delay, maxsize, created, modified, totalsent, totalrecv}, listed, parked}; counts of what is missing or of another type are 0.
local messages, hash, queues, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, sample = ARGV[1], ARGV[2]

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local types, is = {}, {}
for at, key in ipairs({messages, hash, queues, parked}) do
  types[at] = redis.call('TYPE', key).ok
  is[key] = types[at] == ({'zset', 'hash', 'set', 'zset'})[at]
end

local depths = {0, 0, 0, 0, false}
if is[messages] then
  local all = redis.call('ZCARD', messages)
  local hidden = redis.call('ZCOUNT', messages, '(' .. string.format('%.0f', now), '+inf')
  local found = redis.call('ZRANGE', messages, all - hidden, all - hidden + sample - 1)
  local in_flight = 0
  for _, id in ipairs(is[hash] and found or {}) do
    in_flight = in_flight + redis.call('HEXISTS', hash, id .. ':rc')
  end
  depths = {all, hidden, in_flight, #found, redis.call('ZRANGE', messages, 0, 0, 'WITHSCORES')[2]}
end
local fields = {}
if is[hash] then
  fields = redis.call('HMGET', hash, 'vt', 'delay', 'maxsize', 'created', 'modified', 'totalsent', 'totalrecv')
end
local listed = is[queues] and redis.call('SISMEMBER', queues, name) or 0
return {now, types, depths, fields, listed, is[parked] and redis.call('ZCARD', parked) or 0}
