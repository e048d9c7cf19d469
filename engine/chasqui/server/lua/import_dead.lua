-- Add a dead letter that was exported, once: not while it is still there under its old id, nor when it was imported
-- before. `again` (1) imports again what was imported before and has left the dead letters since.
-- KEYS: dlq imported
-- ARGV: ttl_s dead_id digest again fields...
-- Returns: the id of the dead letter, or "there", or "before".
local dlq, imported = KEYS[1], KEYS[2]
local ttl_s, dead_id, digest, again = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local function is_there()
  local found = redis.call('XRANGE', dlq, dead_id, dead_id)[1]
  local fields = {unpack(ARGV, 5)}
  if not found or #found[2] ~= #fields then
    return false
  end
  for i, word in ipairs(fields) do
    if found[2][i] ~= word then
      return false
    end
  end
  return true
end

if is_there() then
  return 'there'
end
local before = redis.call('HGET', imported, digest)
if before and (again ~= '1' or #redis.call('XRANGE', dlq, before, before) > 0) then
  return 'before'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('HSET', imported, digest, ''), "no permissions to run the 'hset' command")
assert(redis.acl_check_cmd('EXPIRE', imported, ttl_s), "no permissions to run the 'expire' command")
local new_id = redis.call('XADD', dlq, '*', unpack(ARGV, 5))
redis.call('HSET', imported, digest, new_id)
redis.call('EXPIRE', imported, ttl_s)
return new_id
