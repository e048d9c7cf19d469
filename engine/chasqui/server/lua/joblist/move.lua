-- Move a job to the same list of another queue: copied there first, then deleted here.
-- KEYS: job list to_job to_list
-- ARGV: id keep
-- Returns: 1 moved, 0 it is not in that list any more, -1 its hash is gone, -2 the other queue has a job of this id. `keep`: 1 to end its expiry.
local job, list, to_job, to_list = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, keep = ARGV[1], ARGV[2]

if not redis.call('LPOS', list, id) then
  return 0
end
if redis.call('HLEN', job) == 0 then
  return -1
end
redis.call('LLEN', to_list)
-- What comes last must be allowed before anything is written.
assert(keep ~= '1' or redis.acl_check_cmd('PERSIST', to_job), "no permissions to run the 'persist' command")
assert(redis.acl_check_cmd('LPUSH', to_list, id), "no permissions to run the 'lpush' command")
assert(redis.acl_check_cmd('LREM', list, 0, id), "no permissions to run the 'lrem' command")
assert(redis.acl_check_cmd('DEL', job), "no permissions to run the 'del' command")
if redis.call('COPY', job, to_job) == 0 then
  return -2
end
if keep == '1' then
  redis.call('PERSIST', to_job)
end
redis.call('LPUSH', to_list, id)
redis.call('LREM', list, 0, id)
redis.call('DEL', job)
return 1
