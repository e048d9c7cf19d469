#!lua flags=no-writes
-- Look for a text in one field of a stream's entries, from one id towards another, and answer only ids: no entry leaves
-- the server. It stops after a number of entries, bytes or hits, so that no client waits long.
-- KEYS: stream
-- ARGV: field text whole start stop backwards entries bytes
-- Returns: {entries looked at, last id looked at (nothing: there are no more), ids of entries whose field is (whole: 1) or holds the text}.
local stream = KEYS[1]
local field, text, whole, start, stop, backwards, entries, bytes = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]

local command = backwards == '1' and 'XREVRANGE' or 'XRANGE'
local looked, weighed, found, step = 0, 0, {}, 20

local function fits(value)
  weighed = weighed + #value
  return value == text or whole ~= '1' and string.find(value, text, 1, true)
end

local function is_hit(fields)
  for i = 1, #fields, 2 do
    if fields[i] == field then
      return fits(fields[i + 1])
    end
  end
end

while looked < tonumber(entries) and weighed < tonumber(bytes) and #found < step do
  local page = redis.call(command, stream, start, stop, 'COUNT', math.min(step, entries - looked))
  for _, entry in ipairs(page) do
    looked = looked + 1
    if is_hit(entry[2]) then
      found[#found + 1] = entry[1]
    end
    start = '(' .. entry[1]
  end
  if #page == 0 then
    return {looked, false, found}
  end
end
return {looked, string.sub(start, 2), found}
