-- Move one delayed job to the stream now, whenever it is due: added, then removed, then its index is dropped.
-- KEYS: delayed stream index
-- ARGV: member d job_name
-- Returns: the new entry's id, nothing when the job is not there (any more).
local delayed, stream, index = KEYS[1], KEYS[2], KEYS[3]
local member, d, job_name = ARGV[1], ARGV[2], ARGV[3]

local indexed = redis.call('GET', index)
if not redis.call('ZSCORE', delayed, member) then
  return false
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZREM', delayed, member), "no permissions to run the 'zrem' command")
assert(redis.acl_check_cmd('DEL', index), "no permissions to run the 'del' command")
local entry_id = redis.call('XADD', stream, '*', 'd', d, unpack(job_name ~= '' and {'n', job_name} or {}))
redis.call('ZREM', delayed, member)
if indexed == member then
  redis.call('DEL', index)
end
return entry_id
