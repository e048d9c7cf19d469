#!lua flags=no-writes
-- Look at some messages in the order they become visible, after one that was seen last. If that one has gone or moved,
-- it begins again at its score: some may then be seen twice, but none is passed over.
-- KEYS: messages hash
-- ARGV: least last count preview
-- Returns: rows {id, score, receives, first received ms, bytes of the body, the first `preview` of them}; what is missing is nothing.
local messages, hash = KEYS[1], KEYS[2]
local least, last, count, preview = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local start = redis.call('ZCOUNT', messages, '-inf', '(' .. least)
if last ~= '' and redis.call('ZSCORE', messages, last) == least then
  start = redis.call('ZRANK', messages, last) + 1
end
local found = redis.call('ZRANGE', messages, start, start + count - 1, 'WITHSCORES')
local rows = {}
for at = 1, #found, 2 do
  local id = found[at]
  local about = redis.call('HMGET', hash, id .. ':rc', id .. ':fr')
  local body = redis.call('HGET', hash, id)
  rows[#rows + 1] = {id, found[at + 1], about[1], about[2], body and #body, body and body:sub(1, preview)}
end
return rows
