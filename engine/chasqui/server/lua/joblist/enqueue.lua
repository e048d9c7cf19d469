-- Enqueue a job of a list queue: its hash and its place at the head of the pending list. Sent again it adds nothing.
-- KEYS: job pending
-- ARGV: id payload now_ms
-- Returns: 1 enqueued, 0 there is a job of this id.
local job, pending = KEYS[1], KEYS[2]
local id, payload, now_ms = ARGV[1], ARGV[2], ARGV[3]

redis.call('LLEN', pending)
if redis.call('EXISTS', job) == 1 then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('LPUSH', pending, id), "no permissions to run the 'lpush' command")
redis.call(
  'HSET', job, 'id', id, 'payload', payload, 'status', 'pending', 'attempts', '0', 'enqueued_at_ms', now_ms,
  'claim_token', ''
)
redis.call('LPUSH', pending, id)
return 1
