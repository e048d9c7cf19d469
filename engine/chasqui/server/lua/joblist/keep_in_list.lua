-- Let an id that is in several lists be in one of them only, and its status say so; unless its status names another
-- list that it is in: the job went on meanwhile.
-- KEYS: job pending processing completed failed
-- ARGV: id keep
-- Returns: from how many places it was taken, 0 when it has changed. `keep`: the list's name, as a status.
local job, pending, processing, completed, failed = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, keep = ARGV[1], ARGV[2]

local status = redis.call('HGET', job, 'status')
local lists = {pending = pending, processing = processing, completed = completed, failed = failed}
for name, list in pairs(lists) do
  if not redis.call('LPOS', list, id) then
    lists[name] = nil
  end
end
if not lists[keep] or (status ~= keep and lists[status or '']) then
  return 0
end
-- What comes last must be allowed before anything is written.
assert(status == keep or redis.acl_check_cmd('HSET', job, 'status', ''), "no permissions to run the 'hset' command")
local taken = 0
for name, list in pairs(lists) do
  if name ~= keep then
    taken = taken + redis.call('LREM', list, 0, id)
  end
end
if taken > 0 and status ~= keep then
  redis.call('HSET', job, 'status', keep)
end
return taken
