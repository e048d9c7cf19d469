-- Add a job unless its id was used before, by anyone, and say which of the two it was. Running it twice adds once.
-- The entry is written before the marker: a refused write leaves no marker that would swallow the next try.
-- KEYS: stream marker
-- ARGV: ttl_s cap fields...
-- Returns: the id of the new entry, nothing when the id was used before.
local stream, marker = KEYS[1], KEYS[2]
local ttl_s, cap = ARGV[1], ARGV[2]

if redis.call('EXISTS', marker) == 1 then
  return false
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', marker, ''), "no permissions to run the 'set' command")
local entry_id = redis.call('XADD', stream, 'MAXLEN', '~', cap, '*', unpack(ARGV, 3))
redis.call('SET', marker, '1', 'EX', ttl_s)
return entry_id
