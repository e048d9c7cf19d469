-- Add a run of jobs of a bulk load, once: what its ledger knows already is passed over, also long after.
-- It never fills the stream beyond `most` entries, nor faster than `rate` jobs a second: then it adds nothing yet. In a
-- ledger of rows the ids of one run must differ. Ledger and `since` live `ttl_s` from the last try on, also one that waits.
-- KEYS: stream delayed ledger pace since
-- ARGV: kind ttl_s most rate chunk digest count shared columns...
-- Returns: {word, jobs added, ms to wait}; added, full, early, or other for a chunk whose digest was not the first's.
local stream, delayed, ledger, pace, since = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local kind, ttl_s, most, rate, chunk, digest, count, shared = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
count = tonumber(count)

-- Columns of `count` words: ids for a ledger of rows, envelopes; then names and due times in ms, unless no job has a
-- due time and all have the `shared` name. The n-th word of a column stands n after its place.
local id_at = 8
local d_at = kind == 'rows' and id_at + count or id_at
local name_at, due_at = d_at + count, d_at + 2 * count
local plain = #ARGV == name_at

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local depth = redis.call('XLEN', stream)
local free = tonumber(redis.call('GET', pace) or 0)
redis.call('ZCARD', delayed)

-- Any answer keeps what is known of the load. Not sooner: a script that has written something is not stopped by a full
-- server any more.
local function outcome(word, added, wait_ms)
  redis.call('EXPIRE', ledger, ttl_s)
  redis.call('EXPIRE', since, ttl_s)
  return {word, added, wait_ms}
end

local known, fresh = {}, count
if kind == 'rows' then
  known = redis.call('SMISMEMBER', ledger, unpack(ARGV, id_at + 1, id_at + count))
  for n = 1, count do
    fresh = fresh - known[n]
  end
elseif kind == 'chunks' then
  local before = redis.call('HGET', ledger, chunk)
  if before then
    return outcome(before == digest and 'added' or 'other', 0, 0)
  end
end

local delayed_until, now_jobs = {}, fresh
if not plain then
  for n = 1, count do
    local due = known[n] ~= 1 and tonumber(ARGV[due_at + n])
    if due and due > now then
      delayed_until[n], now_jobs = ARGV[due_at + n], now_jobs - 1
    end
  end
end
if now_jobs > 0 and depth + now_jobs > tonumber(most) then
  return outcome('full', 0, 50)
end
if tonumber(rate) > 0 and fresh > 0 then
  if free > now + 50 then
    return outcome('early', 0, math.floor(free - now))
  end
  free = math.max(free, now) + fresh * 1000 / rate
  redis.call('SET', pace, string.format('%.3f', free), 'PX', 60000 + math.ceil(free - now))
end

-- What comes later must be allowed before any job is written.
if now_jobs < fresh then
  assert(redis.acl_check_cmd('ZADD', delayed, 0, ''), "no permissions to run the 'zadd' command")
end
if kind == 'rows' then
  assert(redis.acl_check_cmd('SADD', ledger, ''), "no permissions to run the 'sadd' command")
elseif kind == 'chunks' then
  assert(redis.acl_check_cmd('HSET', ledger, chunk, digest), "no permissions to run the 'hset' command")
end
assert(redis.acl_check_cmd('EXPIRE', ledger, ttl_s), "no permissions to run the 'expire' command")
assert(redis.acl_check_cmd('EXPIRE', since, ttl_s), "no permissions to run the 'expire' command")
local call = redis.call
for n = 1, count do
  if known[n] ~= 1 then
    local d, name, due = ARGV[d_at + n], plain and shared or ARGV[name_at + n], delayed_until[n]
    if due then
      call('ZADD', delayed, due, string.char(#name % 256, math.floor(#name / 256), 0, 0) .. name .. d)
    elseif name == '' then
      call('XADD', stream, '*', 'd', d)
    else
      call('XADD', stream, '*', 'd', d, 'n', name)
    end
  end
end
if kind == 'rows' and fresh > 0 then
  redis.call('SADD', ledger, unpack(ARGV, id_at + 1, id_at + count))
elseif kind == 'chunks' then
  redis.call('HSET', ledger, chunk, digest)
end
return outcome('added', fresh, 0)
