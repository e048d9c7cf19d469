-- Take entries out of the stream that no group has read, for they come after whatever any group was given; those that
-- were delayed before go back to the delayed set in the same step.
-- KEYS: stream delayed
-- ARGV: entries...
-- Returns: for each entry (entry id, member, run_at_ms) 1 taken out, 0 it was read or is gone, 2 its member is back already.
local stream, delayed = KEYS[1], KEYS[2]

local function halves(entry_id)
  local ms, number = string.match(entry_id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

local read_ms, read_number = -1, -1
local groups = redis.call('EXISTS', stream) == 1 and redis.call('XINFO', 'GROUPS', stream) or {}
for _, row in ipairs(groups) do
  for i = 1, #row, 2 do
    if row[i] == 'last-delivered-id' then
      local ms, number = halves(row[i + 1])
      if ms > read_ms or ms == read_ms and number > read_number then
        read_ms, read_number = ms, number
      end
    end
  end
end

local results = {}
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XDEL', stream, '0-1'), "no permissions to run the 'xdel' command")
redis.call('ZCARD', delayed)
for i = 1, #ARGV, 3 do
  local entry_id, member, run_at_ms = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local ms, number = halves(entry_id)
  local unread = ms > read_ms or ms == read_ms and number > read_number
  results[#results + 1] = 0
  if unread and #redis.call('XRANGE', stream, entry_id, entry_id) == 1 then
    if member ~= '' then
      redis.call('ZADD', delayed, run_at_ms, member)
    end
    redis.call('XDEL', stream, entry_id)
    results[#results] = 1
  elseif member ~= '' and redis.call('ZSCORE', delayed, member) then
    results[#results] = 2
  end
end
return results
