-- Schedule jobs that have no ids of their own, once: a call sent again after a lost reply finds the marker.
-- Without it a job that became due in between, and left the delayed set, would be scheduled a second time.
-- KEYS: delayed marker
-- ARGV: ttl_s jobs...
-- Returns: the server's time in ms. Each job is a due time in ms of its clock, or `+` and ms from now, and a member.
local delayed, marker = KEYS[1], KEYS[2]
local ttl_s = ARGV[1]

local seen = redis.call('GET', marker)
if seen then
  return tonumber(seen)
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', marker, ''), "no permissions to run the 'set' command")
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
for i = 2, #ARGV, 2 do
  local due, member = ARGV[i], ARGV[i + 1]
  local run_at_ms = due:sub(1, 1) == '+' and string.format('%.0f', now + due:sub(2)) or due
  redis.call('ZADD', delayed, run_at_ms, member)
end
redis.call('SET', marker, string.format('%.0f', now), 'EX', ttl_s)
return now
