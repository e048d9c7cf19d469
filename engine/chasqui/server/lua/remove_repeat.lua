-- Remove a repeatable job with its counter.
-- KEYS: repeats spec
-- ARGV: key
-- Returns: 1 removed, 0 it was not scheduled (a spec left behind is deleted all the same).
local repeats, spec = KEYS[1], KEYS[2]
local key = ARGV[1]

-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('DEL', spec), "no permissions to run the 'del' command")
local removed = redis.call('ZREM', repeats, key)
redis.call('DEL', spec)
return removed
