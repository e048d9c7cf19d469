#!lua flags=no-writes
-- Look at a whole queue at one moment: depths, groups, locks, and what is due by the server's clock. No byte of any job
-- leaves the server, and a key of another type is reported by its type and otherwise left alone.
-- KEYS: stream dlq delayed repeats events promoter_lock scheduler_lock
-- ARGV: sample
-- Returns: {now ms, types of the keys, stream, groups, dlq, delayed, repeats, events, promoter lock, scheduler lock}; each is empty when its key is missing or of another type. A stream: {length, first id, last id ever given, entries ever added}. A group: {name, consumers, pending, last id read, lag, oldest waiting id, oldest pending id, longest idle ms of the first `sample` pending ones}. A set: {members, due, first score}. A lock: {holder, ms left}.
local stream, dlq, delayed, repeats, events, promoter_lock, scheduler_lock = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local sample = ARGV[1]

local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local types = {}

local function is(key, wanted)
  local found = redis.call('TYPE', key).ok
  types[#types + 1] = found
  return found == wanted
end

local function named(row)
  local values = {}
  for i = 1, #row, 2 do
    values[row[i]] = row[i + 1]
  end
  return values
end

local function seen_stream(key)
  if not is(key, 'stream') then
    return {}
  end
  local info = named(redis.call('XINFO', 'STREAM', key))
  local first = info['first-entry'] and info['first-entry'][1]
  return {info['length'], first, info['last-generated-id'], info['entries-added']}
end

local function seen_set(key)
  if not is(key, 'zset') then
    return {}
  end
  local due = redis.call('ZCOUNT', key, '-inf', string.format('%.0f', now))
  return {redis.call('ZCARD', key), due, redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]}
end

local function seen_lock(key)
  return is(key, 'string') and {redis.call('GET', key), redis.call('PTTL', key)} or {}
end

local function seen_group(key, info)
  local longest = 0
  local pending = redis.call('XPENDING', key, info['name'], '-', '+', sample)
  for _, row in ipairs(pending) do
    longest = math.max(longest, row[3])
  end
  -- A foreign hand may have set the group to the largest id there is; nothing comes after that.
  local unread = redis.pcall('XRANGE', key, '(' .. info['last-delivered-id'], '+', 'COUNT', 1)
  local waiting = not unread.err and unread[1] and unread[1][1]
  local oldest = pending[1] and pending[1][1]
  return {
    info['name'], info['consumers'], info['pending'], info['last-delivered-id'], info['lag'] or false,
    waiting or false, oldest or false, longest
  }
end

local function seen_groups(key)
  local groups = {}
  for i, row in ipairs(redis.call('XINFO', 'GROUPS', key)) do
    groups[i] = seen_group(key, named(row))
  end
  return groups
end

local work = seen_stream(stream)
local groups = work[1] and seen_groups(stream) or {}
local dead, later, schedule, event_log = seen_stream(dlq), seen_set(delayed), seen_set(repeats), seen_stream(events)
local promotes, schedules = seen_lock(promoter_lock), seen_lock(scheduler_lock)
return {now, types, work, groups, dead, later, schedule, event_log, promotes, schedules}
