-- Schedule a job unless its id was used before, and index its bytes so that it can be cancelled.
-- The member is written before the marker: a refused write leaves no marker that would swallow the next try.
-- KEYS: marker delayed index
-- ARGV: ttl_s due member
-- Returns: the server's time in ms, 0 when the id was used before. `due` is a time in ms of the server's clock, or `+` and ms from now.
local marker, delayed, index = KEYS[1], KEYS[2], KEYS[3]
local ttl_s, due, member = ARGV[1], ARGV[2], ARGV[3]

if redis.call('EXISTS', marker) == 1 then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', marker, ''), "no permissions to run the 'set' command")
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local run_at_ms = due:sub(1, 1) == '+' and string.format('%.0f', now + due:sub(2)) or due
redis.call('ZADD', delayed, run_at_ms, member)
redis.call('SET', marker, '1', 'EX', ttl_s)
redis.call('SET', index, member, 'EX', ttl_s)
return now
