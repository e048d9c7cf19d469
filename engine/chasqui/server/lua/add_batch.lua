-- Add a run of jobs at once, and once: a call sent again after a lost reply finds the marker and adds nothing.
-- All entries share the first one's millisecond, so that its id gives the ids of all: each has the next number.
-- KEYS: stream marker
-- ARGV: ttl_s words shared jobs...
-- Returns: the id of the first of the entries, one for each job; if words is 1 a job is its d, else d and name.
local stream, marker = KEYS[1], KEYS[2]
local ttl_s, words, shared = ARGV[1], ARGV[2], ARGV[3]

local first = redis.call('GET', marker)
if first then
  return first
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', marker, ''), "no permissions to run the 'set' command")
local at = '*'
for i = 4, #ARGV, tonumber(words) do
  local d, name, entry_id = ARGV[i], shared, nil
  if words == '2' then
    name = ARGV[i + 1]
  end
  if name == '' then
    entry_id = redis.call('XADD', stream, at, 'd', d)
  else
    entry_id = redis.call('XADD', stream, at, 'd', d, 'n', name)
  end
  if not first then
    first, at = entry_id, string.match(entry_id, '^%d+') .. '-*'
  end
end
redis.call('SET', marker, first, 'EX', ttl_s)
return first
