-- Undo the deletion of a job, once: `undone` remembers which jobs an undo has brought back already. It comes last in its list.
-- KEYS: job list undone
-- ARGV: ttl_s id expires_ms fields...
-- Returns: 1 it is back, 0 it is there, or was brought back before. `expires_ms` is empty for a job that does not expire.
local job, list, undone = KEYS[1], KEYS[2], KEYS[3]
local ttl_s, id, expires_ms = ARGV[1], ARGV[2], ARGV[3]

if redis.call('HEXISTS', undone, id) == 1 or redis.call('LPOS', list, id) or redis.call('EXISTS', job) == 1 then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(expires_ms == '' or redis.acl_check_cmd('PEXPIRE', job, 1), "no permissions to run the 'pexpire' command")
assert(redis.acl_check_cmd('LPUSH', list, id), "no permissions to run the 'lpush' command")
assert(redis.acl_check_cmd('HSET', undone, id, 1), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', undone, ttl_s), "no permissions to run the 'expire' command")
if #ARGV > 3 then
  redis.call('HSET', job, unpack(ARGV, 4))
  if expires_ms ~= '' then
    redis.call('PEXPIRE', job, expires_ms)
  end
end
redis.call('LPUSH', list, id)
redis.call('HSET', undone, id, 1)
redis.call('EXPIRE', undone, ttl_s)
return 1
