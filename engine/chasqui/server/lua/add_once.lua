-- Add a job once per producer and id: stands in for XADD IDMP where the server has no such word.
-- The marker counts only while the stream exists, because a native server forgets its ids with the stream.
-- KEYS: stream marker
-- ARGV: ttl_s cap fields...
-- Returns: the id of the entry, the first one's when this id was added before.
local stream, marker = KEYS[1], KEYS[2]
local ttl_s, cap = ARGV[1], ARGV[2]

local seen = redis.call('GET', marker)
if seen and redis.call('EXISTS', stream) == 1 then
  return seen
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', marker, ''), "no permissions to run the 'set' command")
local entry_id = redis.call('XADD', stream, 'MAXLEN', '~', cap, '*', unpack(ARGV, 3))
redis.call('SET', marker, entry_id, 'EX', ttl_s)
return entry_id
