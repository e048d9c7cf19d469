-- Take an id out of a list, if it has no job.
-- KEYS: list job
-- ARGV: id
-- Returns: how many times it was in there.
local list, job = KEYS[1], KEYS[2]
local id = ARGV[1]

if redis.call('EXISTS', job) == 1 then
  return 0
end
return redis.call('LREM', list, 0, id)
