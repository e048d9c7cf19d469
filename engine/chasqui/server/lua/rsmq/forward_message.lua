-- Move one message to a queue of ours on the same server, when RSMQ itself would hand it out or when it was never
-- received: what a consumer holds is not taken from it. Written there first, then deleted here, in one step.
-- KEYS: messages hash stream delayed dlq marker index
-- ARGV: id receives ttl_s cap dead_cap envelope name dead...
-- Returns: "stream", "delayed" or "dlq", where it is now; "held" by a consumer, "changed" since it was read, or "gone"; "full" with `cap` jobs (or `dead_cap` dead letters) there: beyond, producers would trim unread entries. `dead` are the fields of a dead letter, given when it shall be one.
local messages, hash, stream, delayed, dlq, marker, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, receives, ttl_s, cap, dead_cap, envelope, name = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local score = redis.call('ZSCORE', messages, id)
if not score then
  return 'gone'
end
local found = redis.call('HMGET', hash, id, id .. ':rc')
if not found[1] then
  return 'gone'
end
if (found[2] or '') ~= receives then
  return 'changed'
end
local clock = redis.call('TIME')
local hidden = tonumber(score) > clock[1] * 1000 + math.floor(clock[2] / 1000)
if hidden and found[2] then
  return 'held'
end
local where = #ARGV > 7 and 'dlq' or hidden and 'delayed' or 'stream'
local room = {stream = {stream, cap}, dlq = {dlq, dead_cap}}
if room[where] and redis.call('XLEN', room[where][1]) >= tonumber(room[where][2]) then
  return 'full'
end
-- What comes last must be allowed before anything is written.
assert(where ~= 'delayed' or redis.acl_check_cmd('SET', marker, '1'), "no permissions to run the 'set' command")
assert(where ~= 'delayed' or redis.acl_check_cmd('SET', index, ''), "no permissions to run the 'set' command")
assert(redis.acl_check_cmd('ZREM', messages, id), "no permissions to run the 'zrem' command")
assert(redis.acl_check_cmd('HDEL', hash, id), "no permissions to run the 'hdel' command")
if where == 'dlq' then
  redis.call('XADD', dlq, '*', unpack(ARGV, 8))
elseif hidden then
  local member = struct.pack('<I4', #name) .. name .. envelope
  redis.call('ZADD', delayed, score, member)
  redis.call('SET', marker, '1', 'EX', ttl_s)
  redis.call('SET', index, member, 'EX', ttl_s)
else
  redis.call('XADD', stream, '*', 'd', envelope, unpack(name ~= '' and {'n', name} or {}))
end
redis.call('ZREM', messages, id)
redis.call('HDEL', hash, id, id .. ':rc', id .. ':fr')
return where
