-- Move one job to a queue of ours on the same server, if it is still in its list and unchanged since it was read. Written there
-- first, then deleted here, in one step.
-- KEYS: job list stream dlq
-- ARGV: id attempts cap dead_cap envelope name dead...
-- Returns: "stream" or "dlq", where it is now; "changed" since it was read, or "gone"; "full" with `cap` jobs (or `dead_cap` dead letters) there: beyond, producers would trim unread entries. `dead` are the fields of a dead letter, given when it shall be one.
local job, list, stream, dlq = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, attempts, cap, dead_cap, envelope, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

if not redis.call('LPOS', list, id) or redis.call('HLEN', job) == 0 then
  return 'gone'
end
if (redis.call('HGET', job, 'attempts') or '') ~= attempts then
  return 'changed'
end
local where = #ARGV > 6 and 'dlq' or 'stream'
local room = {stream = {stream, cap}, dlq = {dlq, dead_cap}}
if redis.call('XLEN', room[where][1]) >= tonumber(room[where][2]) then
  return 'full'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('LREM', list, 0, id), "no permissions to run the 'lrem' command")
assert(redis.acl_check_cmd('DEL', job), "no permissions to run the 'del' command")
if where == 'dlq' then
  redis.call('XADD', dlq, '*', unpack(ARGV, 7))
else
  redis.call('XADD', stream, '*', 'd', envelope, unpack(name ~= '' and {'n', name} or {}))
end
redis.call('LREM', list, 0, id)
redis.call('DEL', job)
return where
