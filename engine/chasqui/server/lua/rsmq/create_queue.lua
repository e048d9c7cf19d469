-- Create a queue as npm rsmq does: attributes that are missing are filled in, and whether `vt` was among them decides
-- whether the queue is new. A new queue is listed in the same step, so none can be left unlisted.
-- KEYS: hash queues
-- ARGV: name vt delay maxsize now_s
-- Returns: 1 created, 0 there was a queue of this name.
local hash, queues = KEYS[1], KEYS[2]
local name, vt, delay, maxsize, now_s = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

redis.call('SISMEMBER', queues, name)
local is_new = redis.call('HSETNX', hash, 'vt', vt)
redis.call('HSETNX', hash, 'delay', delay)
redis.call('HSETNX', hash, 'maxsize', maxsize)
redis.call('HSETNX', hash, 'created', now_s)
redis.call('HSETNX', hash, 'modified', now_s)
if is_new == 1 then
  redis.call('SADD', queues, name)
end
return is_new
