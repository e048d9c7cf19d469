-- Take a name off the list of queues, if there is no such queue.
-- KEYS: queues hash messages
-- ARGV: name
-- Returns: 1 taken off, 0 not.
local queues, hash, messages = KEYS[1], KEYS[2], KEYS[3]
local name = ARGV[1]

if redis.call('EXISTS', hash, messages) > 0 then
  return 0
end
return redis.call('SREM', queues, name)
