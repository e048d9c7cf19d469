-- Give messages that were set aside back to their queue, with the score they had.
-- KEYS: parked messages
-- ARGV: ids...
-- Returns: how many there were.
local parked, messages = KEYS[1], KEYS[2]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZREM', parked, ''), "no permissions to run the 'zrem' command")
local back = 0
for i = 1, #ARGV do
  local score = redis.call('ZSCORE', parked, ARGV[i])
  if score then
    redis.call('ZADD', messages, score, ARGV[i])
    redis.call('ZREM', parked, ARGV[i])
    back = back + 1
  end
end
return back
