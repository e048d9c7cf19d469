#!lua flags=allow-oom
-- Settle jobs: acknowledge each entry and delete it. Stands in for XACKDEL where the server has no such word.
-- KEYS: stream
-- ARGV: group entry_ids...
-- Returns: a list with 1 for each entry settled now, -1 for one that was not pending.
local stream = KEYS[1]
local group = ARGV[1]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('XDEL', stream, '0-1'), "no permissions to run the 'xdel' command")
local settled = {}
for i = 2, #ARGV do
  settled[#settled + 1] = -1
  if redis.call('XACK', stream, group, ARGV[i]) == 1 then
    redis.call('XDEL', stream, ARGV[i])
    settled[#settled] = 1
  end
end
return settled
