#!lua flags=allow-oom
-- Move due jobs from the delayed set to the stream: due by the server's clock, each removed as soon as it is added.
-- A member that is no job is quarantined among the dead letters with all its bytes, so it never blocks the others.
-- KEYS: delayed stream dlq
-- ARGV: batch cap dead_cap
-- Returns: {promoted, left in the set, ms the oldest one still due is late, promoted envelopes, quarantined}.
local delayed, stream, dlq = KEYS[1], KEYS[2], KEYS[3]
local batch, cap, dead_cap = ARGV[1], ARGV[2], ARGV[3]

local function opens_envelope(bytes, at)
  local b = string.byte(bytes, at)
  return b and (b >= 0x80 and b <= 0x8f or b >= 0x93 and b <= 0x95 or b >= 0xdc and b <= 0xdf)
end

-- A name's bytes can look like an envelope's first byte; the id that must come next cannot.
local function id_follows(bytes, at)
  local header = string.byte(bytes, at)
  local id = string.byte(bytes, at + (header < 0xdc and 1 or header % 2 == 0 and 3 or 5))
  return id and (id >= 0xa0 and id <= 0xbf or id >= 0xc4 and id <= 0xc6 or id >= 0xd9 and id <= 0xdb)
end

-- Names of repeatable jobs have no cap, so a retried fire may carry a length beyond it.
local function split(member)
  local long = #member >= 4 and struct.unpack('<I4', member) or #member
  if opens_envelope(member, 5 + long) and (long <= 256 or id_follows(member, 5 + long)) then
    return member:sub(5, 4 + long), member:sub(5 + long)
  end
  local short = string.byte(member, 1) or 256
  local bare = opens_envelope(member, 1)
  if opens_envelope(member, 2 + short) and not (bare and id_follows(member, 1)) then
    return member:sub(2, 1 + short), member:sub(2 + short)
  end
  return '', bare and member
end

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.0f', now), 'WITHSCORES', 'LIMIT', 0, batch)

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
