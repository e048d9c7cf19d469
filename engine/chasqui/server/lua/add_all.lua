-- Add a run of jobs at once, and once: a call sent again after a lost reply finds the marker and adds nothing.
-- KEYS: stream marker
-- ARGV: ttl_s jobs...
-- Returns: the id of the first of the entries, one for each job (d, name).
local stream, marker = KEYS[1], KEYS[2]
local ttl_s = ARGV[1]

local first = redis.call('GET', marker)
if first then
  return first
end
for i = 2, #ARGV, 2 do
  local d, name, entry_id = ARGV[i], ARGV[i + 1], nil
  if name == '' then
    entry_id = redis.call('XADD', stream, '*', 'd', d)
  else
    entry_id = redis.call('XADD', stream, '*', 'd', d, 'n', name)
  end
  first = first or entry_id
end
redis.call('SET', marker, first, 'EX', ttl_s)
return first
