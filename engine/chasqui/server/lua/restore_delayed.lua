-- Put a delayed job back to where it was before it was removed or moved, with what was known of its id.
-- A job that was removed is put back once per operation, also if it has run meanwhile; one that was moved, only from
-- where it was moved to. Ids are remembered for this many ms, not at all with 0.
-- KEYS: delayed index marker undone
-- ARGV: member run_at_ms moved_to_ms index_ms marker_ms ttl_s
-- Returns: "restored", "already", or, for one that was moved, "gone" or "changed".
local delayed, index, marker, undone = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local member, run_at_ms, moved_to_ms, index_ms, marker_ms, ttl_s = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local score = redis.call('ZSCORE', delayed, member)
if moved_to_ms ~= '' then
  if not score then return 'gone' end
  if math.floor(score) == tonumber(run_at_ms) then return 'already' end
  if math.floor(score) ~= tonumber(moved_to_ms) then return 'changed' end
elseif score or redis.call('EXISTS', undone) == 1 then
  return 'already'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('SET', undone, '1'), "no permissions to run the 'set' command")
redis.call('ZADD', delayed, run_at_ms, member)
if tonumber(index_ms) > 0 then
  redis.call('SET', index, member, 'PX', index_ms)
end
if tonumber(marker_ms) > 0 then
  redis.call('SET', marker, '1', 'PX', marker_ms)
end
redis.call('SET', undone, '1', 'EX', ttl_s)
return 'restored'
