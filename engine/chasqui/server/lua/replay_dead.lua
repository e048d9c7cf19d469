-- Put dead letters back to work, each one only while it is still there: written to the stream, then deleted.
-- It never trims: with `cap` entries in the stream the rest stays dead.
-- KEYS: dlq stream
-- ARGV: cap letters...
-- Returns: for each dead letter (dead id, d, name) the id of its new entry, or "gone", or "full".
local dlq, stream = KEYS[1], KEYS[2]
local cap = ARGV[1]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XDEL', dlq, '0-1'), "no permissions to run the 'xdel' command")
local results = {}
for i = 2, #ARGV, 3 do
  local dead_id, d, name = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if #redis.call('XRANGE', dlq, dead_id, dead_id) == 0 then
    results[#results + 1] = 'gone'
  elseif redis.call('XLEN', stream) >= tonumber(cap) then
    results[#results + 1] = 'full'
  else
    results[#results + 1] = redis.call('XADD', stream, '*', 'd', d, unpack(name ~= '' and {'n', name} or {}))
    redis.call('XDEL', dlq, dead_id)
  end
end
return results
