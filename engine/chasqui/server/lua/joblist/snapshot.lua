#!lua flags=no-writes
-- Look at a whole list queue at one moment. The jobs at both ends of the lists are asked for their times; their keys
-- follow from the prefix and lie in the slot of the lists, where the name has a hash tag. No payload leaves the server.
-- KEYS: pending processing completed failed parked
-- ARGV: prefix sample
-- Returns: {now ms, types of the keys, lengths, enqueued ms of the oldest pending, rows {id, token, claimed ms, enqueued ms, attempts, status} of the `sample` oldest claims}; what is missing is nothing.
local pending, processing, completed, failed, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local prefix, sample = ARGV[1], ARGV[2]

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local types, lengths = {}, {}
for at, key in ipairs({pending, processing, completed, failed, parked}) do
  types[at] = redis.call('TYPE', key).ok
  lengths[at] = types[at] == 'list' and redis.call('LLEN', key) or 0
end

local function about(id)
  local results = redis.pcall('HMGET', prefix .. id, 'claim_token', 'claimed_at_ms', 'enqueued_at_ms', 'attempts', 'status')
  return results.err and {} or results
end

local oldest = lengths[1] > 0 and about(redis.call('LINDEX', pending, -1))[3]
local rows = {}
for _, id in ipairs(lengths[2] > 0 and redis.call('LRANGE', processing, -sample, -1) or {}) do
  local results = about(id)
  rows[#rows + 1] = {id, results[1] or false, results[2] or false, results[3] or false, results[4] or false, results[5] or false}
end
return {now, types, lengths, oldest or false, rows}
