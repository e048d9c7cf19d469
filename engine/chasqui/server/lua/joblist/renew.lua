-- Keep a claim fresh while its worker lives: reclaimers go by the time of the claim, wherever they run.
-- KEYS: job
-- ARGV: token now_ms
-- Returns: 1 renewed, 0 the claim is another's, or over.
local job = KEYS[1]
local token, now_ms = ARGV[1], ARGV[2]

local found = redis.call('HMGET', job, 'claim_token', 'status')
if found[1] ~= token or found[2] ~= 'processing' then
  return 0
end
redis.call('HSET', job, 'claimed_at_ms', now_ms)
return 1
