-- Set one job aside for its way to another server. No worker claims it from then on, and its hash does not expire.
-- KEYS: job list parked
-- ARGV: id
-- Returns: "parked", or "gone".
local job, list, parked = KEYS[1], KEYS[2], KEYS[3]
local id = ARGV[1]

local already = redis.call('LPOS', parked, id)
if not redis.call('LPOS', list, id) or redis.call('HLEN', job) == 0 then
  return already and 'parked' or 'gone'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('PERSIST', job), "no permissions to run the 'persist' command")
assert(redis.acl_check_cmd('LREM', list, 0, id), "no permissions to run the 'lrem' command")
if not already then
  redis.call('LPUSH', parked, id)
end
redis.call('PERSIST', job)
redis.call('LREM', list, 0, id)
return 'parked'
