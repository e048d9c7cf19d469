#!lua flags=allow-oom
-- Move a job to the dead letters: written there first, then taken out of the stream.
-- A second run, or a run by a consumer that lost the entry meanwhile, finds nothing of its own and changes nothing.
-- KEYS: stream dlq
-- ARGV: group consumer entry_id cap fields...
-- Returns: the dead letter's id; nothing when the entry is not pending for this consumer.
local stream, dlq = KEYS[1], KEYS[2]
local group, consumer, entry_id, cap = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if #redis.call('XPENDING', stream, group, entry_id, entry_id, 1, consumer) == 0 then
  return false
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XACK', stream, group, entry_id), "no permissions to run the 'xack' command")
assert(redis.acl_check_cmd('XDEL', stream, entry_id), "no permissions to run the 'xdel' command")
local dead_id = redis.call('XADD', dlq, 'MAXLEN', '~', cap, '*', unpack(ARGV, 5))
redis.call('XACK', stream, group, entry_id)
redis.call('XDEL', stream, entry_id)
return dead_id
