-- Give a claim a time that reclaimers can read, if it still has the one that was seen and is still in that list.
-- KEYS: job list
-- ARGV: id seen value
-- Returns: 1 put right, 0 not the same any more. `seen` is empty for a time that is missing.
local job, list = KEYS[1], KEYS[2]
local id, seen, value = ARGV[1], ARGV[2], ARGV[3]

if not redis.call('LPOS', list, id) or (redis.call('HGET', job, 'claimed_at_ms') or '') ~= seen then
  return 0
end
redis.call('HSET', job, 'claimed_at_ms', value)
return 1
