-- Move messages that have not changed since they were seen to another queue, with id, body, counters and the time they become
-- visible. Written there first, then deleted here.
-- KEYS: messages hash to_messages to_hash
-- ARGV: seen...
-- Returns: for each message (id, score, receives) 1 moved, 0 not the same any more, -1 the other queue has that id; nothing when there is no other queue.
local messages, hash, to_messages, to_hash = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

if redis.call('HEXISTS', to_hash, 'vt') == 0 then
  return false
end

local function moved(id, score, receives)
  if redis.call('ZSCORE', messages, id) ~= score then
    return 0
  end
  local found = redis.call('HMGET', hash, id, id .. ':rc', id .. ':fr')
  if (found[2] or '') ~= receives then
    return 0
  end
  if redis.call('ZSCORE', to_messages, id) then
    return -1
  end
  for at, field in ipairs({id, id .. ':rc', id .. ':fr'}) do
    if found[at] then
      redis.call('HSET', to_hash, field, found[at])
    end
  end
  redis.call('ZADD', to_messages, score, id)
  redis.pcall('HINCRBY', to_hash, 'totalsent', 1)
  redis.call('ZREM', messages, id)
  redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')
  return 1
end

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZADD', to_messages, 0, ''), "no permissions to run the 'zadd' command")
assert(redis.acl_check_cmd('ZREM', messages, ''), "no permissions to run the 'zrem' command")
assert(redis.acl_check_cmd('HDEL', hash, ''), "no permissions to run the 'hdel' command")
local results = {}
for i = 1, #ARGV, 3 do
  results[#results + 1] = moved(ARGV[i], ARGV[i + 1], ARGV[i + 2])
end
return results
