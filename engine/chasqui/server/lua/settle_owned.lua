#!lua flags=allow-oom
-- Settle a job that this consumer still owns, keeping what it returned, if anything: stored first, settled then.
-- A consumer that took too long and lost the entry to another consumer is refused: that one's outcome will count.
-- KEYS: stream result
-- ARGV: group consumer entry_id data ttl_s
-- Returns: 1 settled, -1 the entry is not pending for this consumer and nothing was stored.
local stream, result = KEYS[1], KEYS[2]
local group, consumer, entry_id, data, ttl_s = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if #redis.call('XPENDING', stream, group, entry_id, entry_id, 1, consumer) == 0 then
  return -1
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XACK', stream, group, entry_id), "no permissions to run the 'xack' command")
assert(redis.acl_check_cmd('XDEL', stream, entry_id), "no permissions to run the 'xdel' command")
if #data > 0 then
  redis.call('SET', result, data, 'EX', ttl_s)
end
redis.call('XACK', stream, group, entry_id)
redis.call('XDEL', stream, entry_id)
return 1
