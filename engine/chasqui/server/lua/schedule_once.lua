-- Schedule a job unless its id was used before, and index its bytes so that it can be cancelled.
-- The member is written before the marker: a refused write leaves no marker that would swallow the next try.
-- KEYS: marker delayed index
-- ARGV: ttl_s run_at_ms member
-- Returns: 1 scheduled, 0 the id was used before.
local marker, delayed, index = KEYS[1], KEYS[2], KEYS[3]
local ttl_s, run_at_ms, member = ARGV[1], ARGV[2], ARGV[3]

if redis.call('EXISTS', marker) == 1 then
  return 0
end
redis.call('ZADD', delayed, run_at_ms, member)
redis.call('SET', marker, '1', 'EX', ttl_s)
redis.call('SET', index, member, 'EX', ttl_s)
return 1
