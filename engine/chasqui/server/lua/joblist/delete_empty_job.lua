-- Delete what is left of a job that has no payload and is in no list, if that is still so.
-- KEYS: job pending processing completed failed parked
-- ARGV: id
-- Returns: 1 deleted, 0 not.
local job, pending, processing, completed, failed, parked = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local id = ARGV[1]

for _, list in ipairs({pending, processing, completed, failed, parked}) do
  if redis.call('LPOS', list, id) then
    return 0
  end
end
if redis.call('HEXISTS', job, 'payload') == 1 then
  return 0
end
return redis.call('DEL', job)
