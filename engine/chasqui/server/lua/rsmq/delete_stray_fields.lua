-- Remove fields that belong to no message, each only if that is still so.
-- KEYS: hash messages parked
-- ARGV: fields...
-- Returns: how many were removed.
local hash, messages, parked = KEYS[1], KEYS[2], KEYS[3]

local function is_message(id)
  return redis.call('ZSCORE', messages, id) or redis.call('ZSCORE', parked, id)
end

local removed = 0
for i = 1, #ARGV do
  local field = ARGV[i]
  local id = field:match('^(.*):[rf][cr]$')
  if not is_message(field) and not (id and is_message(id)) then
    removed = removed + redis.call('HDEL', hash, field)
  end
end
return removed
