-- Delete messages that have not changed since they were seen: one that was received, moved or rescheduled meanwhile stays.
-- KEYS: messages hash
-- ARGV: seen...
-- Returns: for each message (id, score, receives) 1 deleted, 0 not the same any more.
local messages, hash = KEYS[1], KEYS[2]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HDEL', hash, ''), "no permissions to run the 'hdel' command")
local results = {}
for i = 1, #ARGV, 3 do
  local id, score, receives = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local same = redis.call('ZSCORE', messages, id) == score
  if same and (redis.call('HGET', hash, id .. ':rc') or '') == receives then
    redis.call('ZREM', messages, id)
    redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')
    results[#results + 1] = 1
  else
    results[#results + 1] = 0
  end
end
return results
