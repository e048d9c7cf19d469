-- Change when messages become visible, of those that still have the score they were seen with.
-- KEYS: messages
-- ARGV: seen...
-- Returns: for each message (id, score, new score) 1 changed, 0 not the same any more.
local messages = KEYS[1]

local results = {}
for i = 1, #ARGV, 3 do
  local id, score, new_score = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local same = redis.call('ZSCORE', messages, id) == score
  if same then
    redis.call('ZADD', messages, new_score, id)
  end
  results[#results + 1] = same and 1 or 0
end
return results
