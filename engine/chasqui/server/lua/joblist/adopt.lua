-- Give a job that is in no list its place on the pending list again, unless it was found a place meanwhile.
-- KEYS: job pending processing completed failed
-- ARGV: id
-- Returns: 1 it waits again, 0 not.
local job, pending, processing, completed, failed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id = ARGV[1]

for _, list in ipairs({pending, processing, completed, failed}) do
  if redis.call('LPOS', list, id) then
    return 0
  end
end
if redis.call('HEXISTS', job, 'payload') == 0 then
  return 0
end
redis.call('LPUSH', pending, id)
redis.call('PERSIST', job)
redis.call('HSET', job, 'status', 'pending', 'claim_token', '', 'claimed_at_ms', '0')
return 1
