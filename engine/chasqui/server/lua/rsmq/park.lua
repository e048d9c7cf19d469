-- Set one message aside for its way to another server, when RSMQ itself would hand it out or when it was never
-- received. From then on RSMQ does not deliver it; its body stays where it is until it has arrived.
-- KEYS: messages hash parked
-- ARGV: id
-- Returns: "parked", "held" by a consumer, "empty" when it has no body, or "gone".
local messages, hash, parked = KEYS[1], KEYS[2], KEYS[3]
local id = ARGV[1]

local score = redis.call('ZSCORE', messages, id)
if not score then
  return redis.call('ZSCORE', parked, id) and 'parked' or 'gone'
end
if redis.call('HEXISTS', hash, id) == 0 then
  return 'empty'
end
local clock = redis.call('TIME')
local hidden = tonumber(score) > clock[1] * 1000 + math.floor(clock[2] / 1000)
if hidden and redis.call('HEXISTS', hash, id .. ':rc') == 1 then
  return 'held'
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZREM', messages, id), "no permissions to run the 'zrem' command")
redis.call('ZADD', parked, score, id)
redis.call('ZREM', messages, id)
return 'parked'
