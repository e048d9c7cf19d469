#!lua flags=allow-oom
-- Store what a job returned, then settle it. Whoever holds the entry by now, the job is done: no owner is asked for.
-- KEYS: stream result
-- ARGV: group entry_id data ttl_s
-- Returns: 1 stored and settled, -1 the entry was not pending and nothing was stored.
local stream, result = KEYS[1], KEYS[2]
local group, entry_id, data, ttl_s = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if #redis.call('XPENDING', stream, group, entry_id, entry_id, 1) == 0 then
  return -1
end
if #data > 0 then
  redis.call('SET', result, data, 'EX', ttl_s)
end
redis.call('XACK', stream, group, entry_id)
redis.call('XDEL', stream, entry_id)
return 1
