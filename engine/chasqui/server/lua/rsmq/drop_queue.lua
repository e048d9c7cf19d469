-- Drop a queue with everything in it.
-- KEYS: hash messages queues
-- ARGV: name
-- Returns: {keys removed, 1 when it was listed}.
local hash, messages, queues = KEYS[1], KEYS[2], KEYS[3]
local name = ARGV[1]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('DEL', hash, messages), "no permissions to run the 'del' command")
local listed = redis.call('SREM', queues, name)
return {redis.call('DEL', hash, messages), listed}
