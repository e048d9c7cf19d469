-- Take in one job from another server, once: the marker records that it has arrived, however often it is sent.
-- The job is written before the marker, and both in one step.
-- KEYS: arrived stream delayed dlq marker index
-- ARGV: keep_s where due_ms ttl_s cap dead_cap envelope name dead...
-- Returns: 1 taken in, 0 it had arrived before, -1 there are `cap` jobs (or `dead_cap` dead letters) already: beyond, producers would trim unread entries. `where` is "stream", "delayed" (due at `due_ms`) or "dlq" (with the fields `dead`).
local arrived, stream, delayed, dlq, marker, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local keep_s, where, due_ms, ttl_s, cap, dead_cap, envelope, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

if redis.call('EXISTS', arrived) == 1 then
  return 0
end
local room = {stream = {stream, cap}, dlq = {dlq, dead_cap}}
if room[where] and redis.call('XLEN', room[where][1]) >= tonumber(room[where][2]) then
  return -1
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', arrived, '1'), "no permissions to run the 'set' command")
if where == 'dlq' then
  redis.call('XADD', dlq, '*', unpack(ARGV, 9))
elseif where == 'delayed' then
  local member = struct.pack('<I4', #name) .. name .. envelope
  redis.call('ZADD', delayed, due_ms, member)
  redis.call('SET', marker, '1', 'EX', ttl_s)
  redis.call('SET', index, member, 'EX', ttl_s)
else
  redis.call('XADD', stream, '*', 'd', envelope, unpack(name ~= '' and {'n', name} or {}))
end
redis.call('SET', arrived, '1', 'EX', keep_s)
return 1
