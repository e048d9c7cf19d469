-- Add a run of jobs of a bulk load, once: what its ledger knows already is passed over, also long after.
-- It never fills the stream beyond `most` entries, nor faster than `rate` jobs a second: then it adds nothing yet.
-- KEYS: stream delayed ledger pace
-- ARGV: kind ttl_s most rate chunk digest jobs...
-- Returns: {word, jobs added, ms to wait}; added, full, early, or other for a chunk whose digest was not the first's.
local stream, delayed, ledger, pace = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local kind, ttl_s, most, rate, chunk, digest = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local depth = redis.call('XLEN', stream)
local free = tonumber(redis.call('GET', pace) or 0)
redis.call('ZCARD', delayed)

local ids = {}
for i = 7, #ARGV, 4 do
  ids[#ids + 1] = ARGV[i]
end
local known = {}
if kind == 'rows' then
  known = redis.call('SMISMEMBER', ledger, unpack(ids))
elseif kind == 'chunks' then
  local before = redis.call('HGET', ledger, chunk)
  if before then
    return {before == digest and 'added' or 'other', 0, 0}
  end
end

-- Each job is an id, a due time in ms or nothing, an envelope and a name.
local fresh, seen, now_jobs = {}, {}, 0
for n = 1, #ids do
  local at, id = 3 + 4 * n, ids[n]
  if known[n] ~= 1 and not (kind == 'rows' and seen[id]) then
    seen[id] = true
    fresh[#fresh + 1] = at
    local due = tonumber(ARGV[at + 1])
    if not due or due <= now then
      now_jobs = now_jobs + 1
    end
  end
end
if now_jobs > 0 and depth + now_jobs > tonumber(most) then
  return {'full', 0, 50}
end
if tonumber(rate) > 0 and #fresh > 0 then
  if free > now + 50 then
    return {'early', 0, math.floor(free - now)}
  end
  free = math.max(free, now) + #fresh * 1000 / rate
  redis.call('SET', pace, string.format('%.3f', free), 'PX', 60000 + math.ceil(free - now))
end

local written = {}
for n = 1, #fresh do
  local at = fresh[n]
  local due, d, name = tonumber(ARGV[at + 1]), ARGV[at + 2], ARGV[at + 3]
  if due and due > now then
    redis.call('ZADD', delayed, ARGV[at + 1], string.char(#name % 256, math.floor(#name / 256), 0, 0) .. name .. d)
  elseif name == '' then
    redis.call('XADD', stream, '*', 'd', d)
  else
    redis.call('XADD', stream, '*', 'd', d, 'n', name)
  end
  written[n] = ARGV[at]
end
if kind == 'rows' and #written > 0 then
  redis.call('SADD', ledger, unpack(written))
  redis.call('EXPIRE', ledger, ttl_s)
elseif kind == 'chunks' then
  redis.call('HSET', ledger, chunk, digest)
  redis.call('EXPIRE', ledger, ttl_s)
end
return {'added', #fresh, 0}
