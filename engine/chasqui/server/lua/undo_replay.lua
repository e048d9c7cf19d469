-- Undo the replay of a dead letter, once, and only while no group has read its job: the dead letter is written, then the
-- job is deleted. `undone` remembers which dead letters an undo has restored already.
-- KEYS: stream dlq undone
-- ARGV: ttl_s dead_id entry_id fields...
-- Returns: the id of the dead letter, or "already" when it is back or never went, "gone" or "started" when its job is.
local stream, dlq, undone = KEYS[1], KEYS[2], KEYS[3]
local ttl_s, dead_id, entry_id = ARGV[1], ARGV[2], ARGV[3]

local function was_read()
  for _, row in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local group = {}
    for i = 1, #row, 2 do
      group[row[i]] = row[i + 1]
    end
    -- A foreign hand may have set the group to the largest id there is; nothing comes after that.
    local unread = redis.pcall('XRANGE', stream, '(' .. group['last-delivered-id'], entry_id, 'COUNT', 1)
    if unread.err or #unread == 0 or #redis.call('XPENDING', stream, group['name'], entry_id, entry_id, 1) > 0 then
      return true
    end
  end
end

if redis.call('HEXISTS', undone, dead_id) == 1 or #redis.call('XRANGE', dlq, dead_id, dead_id) > 0 then
  return 'already'
end
if #redis.call('XRANGE', stream, entry_id, entry_id) == 0 then
  return 'gone'
end
if was_read() then
  return 'started'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HSET', undone, dead_id, ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', undone, ttl_s), "no permissions to run the 'expire' command")
assert(redis.acl_check_cmd('XDEL', stream, entry_id), "no permissions to run the 'xdel' command")
local new_id = redis.call('XADD', dlq, '*', unpack(ARGV, 4))
redis.call('HSET', undone, dead_id, new_id)
redis.call('EXPIRE', undone, ttl_s)
redis.call('XDEL', stream, entry_id)
return new_id
