#!lua flags=allow-oom
-- Move due jobs from the delayed set to the stream: due by the server's clock, each removed as soon as it is added.
-- A member that is not a job is quarantined among the dead letters with all its bytes, so it never blocks the others.
-- KEYS: delayed stream dlq
-- ARGV: batch cap dead_cap
-- Returns: {promoted, left in the set, ms the oldest one still due is late, promoted envelopes, quarantined}.
local delayed, stream, dlq = KEYS[1], KEYS[2], KEYS[3]
local batch, cap, dead_cap = ARGV[1], ARGV[2], ARGV[3]

-- Bytes of a value of fixed size, and of the length or count in front of one that has none.
local SIZE = {[0xc0] = 1, [0xc2] = 1, [0xc3] = 1, [0xca] = 5, [0xcb] = 9, [0xcc] = 2, [0xcd] = 3, [0xce] = 5, [0xcf] = 9,
  [0xd0] = 2, [0xd1] = 3, [0xd2] = 5, [0xd3] = 9, [0xd4] = 3, [0xd5] = 4, [0xd6] = 6, [0xd7] = 10, [0xd8] = 18}
local WIDTH = {[0xc4] = 1, [0xc5] = 2, [0xc6] = 4, [0xc7] = 1, [0xc8] = 2, [0xc9] = 4, [0xd9] = 1, [0xda] = 2, [0xdb] = 4,
  [0xdc] = 2, [0xdd] = 4, [0xde] = 2, [0xdf] = 4}

-- How many bytes the msgpack value at `at` has before the values inside it, and how many those are.
local function measure(bytes, at)
  local b = string.byte(bytes, at) or 0xc1
  if b < 0x80 or b >= 0xe0 then return 1, 0 end
  if b < 0x90 then return 1, 2 * (b - 0x80) end
  if b < 0xa0 then return 1, b - 0x90 end
  if b < 0xc0 then return 1 + b - 0xa0, 0 end
  if SIZE[b] then return SIZE[b], 0 end
  local width = WIDTH[b]
  if not width or at + width > #bytes then return nil end
  local n = struct.unpack('>I' .. width, bytes, at + 1)
  if b >= 0xdc then return 1 + width, b >= 0xde and 2 * n or n end
  return 1 + width + n + (b >= 0xc7 and b <= 0xc9 and 1 or 0), 0
end

-- Where the value at `at` ends. After very many parts it is taken to fill the rest and the second result is true,
-- because the server serves no other client meanwhile.
local function end_of(bytes, at)
  local pending = 1
  for _ = 1, 4096 do
    local size, inside = measure(bytes, at)
    if not size or at + size > #bytes + 1 then return nil end
    at, pending = at + size, pending - 1 + inside
    if pending == 0 then return at end
    if pending > #bytes + 1 - at then return nil end
  end
  return #bytes + 1, true
end

local function opens_envelope(bytes, at)
  local b = string.byte(bytes, at)
  return b and (b >= 0x80 and b <= 0x8f or b >= 0x93 and b <= 0x95 or b >= 0xdc and b <= 0xdf)
end

local function is_text(b)
  return b and (b >= 0xa0 and b <= 0xbf or b >= 0xc4 and b <= 0xc6 or b >= 0xd9 and b <= 0xdb)
end

local function is_whole_number(b)
  return b and (b < 0x80 or b >= 0xcc and b <= 0xd3)
end

-- Where the envelope at `at` ends. A map names three fields at least; an array is id, payload, created, attempt, retry,
-- of which the last two may be missing. A retry's backoff is an array of five that begins with text, too.
local function envelope_end(bytes, at)
  local size, inside = measure(bytes, at)
  local header = string.byte(bytes, at)
  if header < 0x90 or header >= 0xde then return size and inside >= 6 and end_of(bytes, at) end
  if not size or inside < 3 or inside > 5 then return nil end
  local stop, gave_up = at + size, false
  for i = 1, inside do
    local b = string.byte(bytes, stop)
    if i == 1 and not is_text(b) or (i == 3 or i == 4) and not is_whole_number(b) then return nil end
    stop, gave_up = end_of(bytes, stop)
    if not stop or gave_up then return stop end
  end
  return stop
end

-- 3: an envelope fills the rest. 2: bytes follow it. 1: it only begins like one. 0: it does not.
local function fit(bytes, at)
  if not opens_envelope(bytes, at) then return 0 end
  local stop = envelope_end(bytes, at)
  return not stop and 1 or stop <= #bytes and 2 or 3
end

-- The readings of wire/delayed_member.py in its order, and of those the first that fits best. Behind the length we
-- write, an envelope is one even if bytes follow, and a broken one goes on to the dead letters, its bytes being certain; what
-- is broken otherwise stays in one piece.
local function split(member)
  local long = #member >= 4 and struct.unpack('<I4', member) or #member
  local wide, short, bare = {4, long}, {1, string.byte(member, 1) or 0}, {0, 0}
  local best, name, d = 0, '', nil
  for _, reading in ipairs(long <= 256 and {wide, short, bare} or {short, bare, wide}) do
    local at = 1 + reading[1] + reading[2]
    local score = fit(member, at)
    if score == 2 and reading == wide then score = 3 end
    if score > best and (score > 1 or reading == wide and long <= 256) then
      best, name, d = score, member:sub(1 + reading[1], at - 1), member:sub(at)
    end
    if best == 3 then break end
  end
  return name, d
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, batch)

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZREM', delayed, ''), "no permissions to run the 'zrem' command")
local envelopes, quarantined = {}, 0
for i = 1, #due, 2 do
  local member, name, d = due[i], split(due[i])
  if d then
    redis.call('XADD', stream, 'MAXLEN', '~', cap, '*', 'd', d, unpack(name ~= '' and {'n', name} or {}))
    redis.call('ZREM', delayed, member)
    envelopes[#envelopes + 1] = d
  else
    local kept = redis.pcall('XADD', dlq, 'MAXLEN', '~', dead_cap, '*', 'd', member, 'source_id', '', 'reason', 'malformed',
      'detail', 'delayed member without a readable envelope', 'due_ms', due[i + 1])
    if type(kept) == 'string' then
      quarantined = quarantined + redis.call('ZREM', delayed, member)
    end
  end
end

local oldest = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
local late = oldest[2] and math.min(now, math.max(0, now - tonumber(oldest[2]))) or 0
return {#envelopes, redis.call('ZCARD', delayed), late, envelopes, quarantined}
