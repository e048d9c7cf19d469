-- Move one job to a queue of ours on the same server, if it is still in its list and as it was read. Written there
-- first, then deleted here, in one step.
-- KEYS: job list stream dlq
-- ARGV: id attempts envelope name dead...
-- Returns: "stream" or "dlq", where it is now; "changed" since it was read, or "gone". `dead` are the fields of a dead letter, given when it shall be one.
local job, list, stream, dlq = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, attempts, envelope, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not redis.call('LPOS', list, id) or redis.call('HLEN', job) == 0 then
  return 'gone'
end
if (redis.call('HGET', job, 'attempts') or '') ~= attempts then
  return 'changed'
end
local where = 'stream'
if #ARGV > 4 then
  where = 'dlq'
  redis.call('XADD', dlq, '*', unpack(ARGV, 5))
else
  redis.call('XADD', stream, '*', 'd', envelope, unpack(name ~= '' and {'n', name} or {}))
end
redis.call('LREM', list, 0, id)
redis.call('DEL', job)
return where
