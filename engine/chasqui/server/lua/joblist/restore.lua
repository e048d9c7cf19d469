-- Undo the deletion of a job, once: `undone` remembers which jobs an undo has brought back already. It comes last in its list.
-- KEYS: job list undone
-- ARGV: ttl_s id expires_ms fields...
-- Returns: 1 it is back, 0 it is there, or was brought back before. `expires_ms` is empty for a job that does not expire.
local job, list, undone = KEYS[1], KEYS[2], KEYS[3]
local ttl_s, id, expires_ms = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HEXISTS', undone, id) == 1 or redis.call('LPOS', list, id) or redis.call('EXISTS', job) == 1 then
  return 0
end
redis.call('HSET', undone, id, 1)
redis.call('EXPIRE', undone, ttl_s)
if #ARGV > 3 then
  redis.call('HSET', job, unpack(ARGV, 4))
  if expires_ms ~= '' then
    redis.call('PEXPIRE', job, expires_ms)
  end
end
redis.call('LPUSH', list, id)
return 1
