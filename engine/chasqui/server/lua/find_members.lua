#!lua flags=no-writes
-- Look for a text in the members of a sorted set, from a score on and by rank from there, within bounds as in find_entry.
-- KEYS: set
-- ARGV: text least skip entries bytes
-- Returns: {members looked at, 1 when there are no more else 0, score, member, score, member ...} of those with the text.
local set = KEYS[1]
local text, least, skip, entries, bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local rank = redis.call('ZCOUNT', set, '-inf', '(' .. least) + skip
local looked, weighed, step = 0, 0, 20
local results = {0, 0}

while looked < tonumber(entries) and weighed < tonumber(bytes) and #results < 2 * step do
  local last = rank + looked + math.min(step, entries - looked) - 1
  local page = redis.call('ZRANGE', set, rank + looked, last, 'WITHSCORES')
  for i = 1, #page, 2 do
    weighed = weighed + #page[i]
    if string.find(page[i], text, 1, true) then
      results[#results + 1] = page[i + 1]
      results[#results + 1] = page[i]
    end
  end
  looked = looked + #page / 2
  if #page == 0 then
    results[2] = 1
    break
  end
end
results[1] = looked
return results
