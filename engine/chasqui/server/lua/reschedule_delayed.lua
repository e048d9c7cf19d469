-- Change when a delayed job is due, and let its id be remembered for as long as it waits now.
-- KEYS: delayed index marker
-- ARGV: member run_at_ms spare_s
-- Returns: 1 it is due then, 0 it is not there (any more).
local delayed, index, marker = KEYS[1], KEYS[2], KEYS[3]
local member, run_at_ms, spare_s = ARGV[1], ARGV[2], ARGV[3]

local clock = redis.call('TIME')
local indexed = redis.call('GET', index)
if not redis.call('ZSCORE', delayed, member) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('EXPIRE', index, 1), "no permissions to run the 'expire' command")
redis.call('ZADD', delayed, 'XX', run_at_ms, member)
if indexed == member then
  local ttl_s = string.format('%.0f', math.max(1, math.floor(run_at_ms / 1000) - clock[1]) + spare_s)
  redis.call('EXPIRE', index, ttl_s)
  redis.call('EXPIRE', marker, ttl_s)
end
return 1
