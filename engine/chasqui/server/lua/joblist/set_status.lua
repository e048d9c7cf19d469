-- Let a job's status be the name of its list, and end the expiry of one that waits or runs.
-- KEYS: job list
-- ARGV: id status keep
-- Returns: 1 put right, 0 it is right, or not in that list any more. `keep`: 1 to end its expiry.
local job, list = KEYS[1], KEYS[2]
local id, status, keep = ARGV[1], ARGV[2], ARGV[3]

if not redis.call('LPOS', list, id) or redis.call('HLEN', job) == 0 then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(keep ~= '1' or redis.acl_check_cmd('PERSIST', job), "no permissions to run the 'persist' command")
local wrong = redis.call('HGET', job, 'status') ~= status and 1 or 0
redis.call('HSET', job, 'status', status)
return math.max(wrong, keep == '1' and redis.call('PERSIST', job) or 0)
