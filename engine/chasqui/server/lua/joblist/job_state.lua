#!lua flags=no-writes
-- Look at one job at one moment: where its id is, and what its hash holds. No payload leaves the server.
-- KEYS: job pending processing completed failed parked
-- ARGV: id
-- Returns: {how often the id is in each list, the parked one last; type of the job's key; {token, claimed ms, enqueued ms, status}; has a payload; ms until it expires}.
local job, pending, processing, completed, failed, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local id = ARGV[1]

local places = {}
for at, list in ipairs({pending, processing, completed, failed, parked}) do
  places[at] = #redis.call('LPOS', list, id, 'COUNT', 0)
end
local kind = redis.call('TYPE', job).ok
local fields, payload = {}, 0
if kind == 'hash' then
  fields = redis.call('HMGET', job, 'claim_token', 'claimed_at_ms', 'enqueued_at_ms', 'status')
  payload = redis.call('HEXISTS', job, 'payload')
end
return {places, kind, fields, payload, redis.call('PTTL', job)}
