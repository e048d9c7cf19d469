-- Put a job from one of the history lists back to work. Its hash is expiring there; that is ended, or the payload would
-- vanish while the job waits.
-- KEYS: job source pending
-- ARGV: id next reset
-- Returns: 1 it waits again, 0 it is not in that list, -1 its hash is gone. `next`: 1 to be claimed first. `reset`: 1 to count attempts from 0 again.
local job, source, pending = KEYS[1], KEYS[2], KEYS[3]
local id, next, reset = ARGV[1], ARGV[2], ARGV[3]

if not redis.call('LPOS', source, id) then
  return 0
end
if redis.call('HLEN', job) == 0 then
  return -1
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('PERSIST', job), "no permissions to run the 'persist' command")
assert(redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('LREM', source, 0, id), "no permissions to run the 'lrem' command")
redis.call(next == '1' and 'RPUSH' or 'LPUSH', pending, id)
redis.call('PERSIST', job)
redis.call('HSET', job, 'status', 'pending', 'claim_token', '', 'claimed_at_ms', '0')
if reset == '1' then
  redis.call('HSET', job, 'attempts', '0')
end
redis.call('LREM', source, 0, id)
return 1
