-- Create or replace a repeatable job. How often it fired already is kept: only removing the spec forgets that.
-- KEYS: repeats spec
-- ARGV: key next_ms data
-- Returns: 1 created, 0 replaced.
local repeats, spec = KEYS[1], KEYS[2]
local key, next_ms, data = ARGV[1], ARGV[2], ARGV[3]

local known = redis.call('ZSCORE', repeats, key)
-- What comes last must be allowed before anything is written.
assert(redis.acl_check_cmd('ZADD', repeats, next_ms, key), "no permissions to run the 'zadd' command")
redis.call('HSET', spec, 'spec', data)
redis.call('ZADD', repeats, next_ms, key)
return known and 0 or 1
