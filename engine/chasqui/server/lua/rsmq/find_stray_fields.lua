#!lua flags=no-writes
-- Look through a queue's hash, some fields at a time, for those that belong to no message: leavings of deleted ones.
-- Messages on their way to another server count as messages.
-- KEYS: hash messages parked
-- ARGV: cursor count
-- Returns: {next cursor, fields without a message}.
local hash, messages, parked = KEYS[1], KEYS[2], KEYS[3]
local cursor, count = ARGV[1], ARGV[2]

local own = {vt = 1, delay = 1, maxsize = 1, created = 1, modified = 1, totalsent = 1, totalrecv = 1}

local function is_message(id)
  return redis.call('ZSCORE', messages, id) or redis.call('ZSCORE', parked, id)
end

local page = redis.call('HSCAN', hash, cursor, 'COUNT', count)
local strays = {}
for at = 1, #page[2], 2 do
  local field = page[2][at]
  local id = field:match('^(.*):[rf][cr]$')
  if not own[field] and not is_message(field) and not (id and is_message(id)) then
    strays[#strays + 1] = field
  end
end
return {page[1], strays}
