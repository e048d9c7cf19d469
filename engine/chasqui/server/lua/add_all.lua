-- Add a run of jobs at once, and once: a call sent again after a lost reply finds the marker and adds nothing.
-- KEYS: stream marker
-- ARGV: ttl_s words shared jobs...
-- Returns: the id of the first of the entries, one for each job; if words is 1 a job is its d, else d and name.
local stream, marker = KEYS[1], KEYS[2]
local ttl_s, words, shared = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local first = redis.call('GET', marker)
if first then
  return first
end
for i = 4, #ARGV, words do
  local d, name, entry_id = ARGV[i], shared, nil
  if words == 2 then
    name = ARGV[i + 1]
  end
  if name == '' then
    entry_id = redis.call('XADD', stream, '*', 'd', d)
  else
    entry_id = redis.call('XADD', stream, '*', 'd', d, 'n', name)
  end
  first = first or entry_id
end
redis.call('SET', marker, first, 'EX', ttl_s)
return first
