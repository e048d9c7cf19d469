#!lua flags=allow-oom
-- Park a failed job until its next try: into the delayed set first, then out of the stream.
-- A second run, or a run by a consumer that lost the entry meanwhile, finds nothing of its own and changes nothing.
-- KEYS: stream delayed
-- ARGV: group consumer entry_id delay_ms member
-- Returns: when the job is due, in ms of the server's clock; nothing when the entry is not pending for this consumer.
local stream, delayed = KEYS[1], KEYS[2]
local group, consumer, entry_id, delay_ms, member = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if #redis.call('XPENDING', stream, group, entry_id, entry_id, 1, consumer) == 0 then
  return false
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XACK', stream, group, entry_id), "no permissions to run the 'xack' command")
assert(redis.acl_check_cmd('XDEL', stream, entry_id), "no permissions to run the 'xdel' command")
local clock = redis.call('TIME')
local run_at_ms = clock[1] * 1000 + math.floor(clock[2] / 1000) + delay_ms
redis.call('ZADD', delayed, string.format('%.0f', run_at_ms), member)
redis.call('XACK', stream, group, entry_id)
redis.call('XDEL', stream, entry_id)
return run_at_ms
