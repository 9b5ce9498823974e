-- post.lua: puts a document on the board.
-- Needs: base. Does: writes one hash, which Redis itself forgets after KEEP, and its name in the
-- index; takes at most 8 expired names out of that. Its version is the clock where that is ahead of
-- the last one: so it grows although an expiry or a failover took what was there.
-- ARGV: escaped name, bytes, keep ms, name, 1 to post only what is not there. Returns: version; or,
-- with 1, the bytes that are there then.
local k = pBoard .. ARGV[1]
local first = ARGV[5] == '1'
local have = first and call('HGET', k, 'b')
if have then return have end
local version = max(now, 1 + tonumber(call('HGET', kMeta, 'post') or 0), 1 + tonumber(call('HGET', k, 'v') or 0))
call('HSET', k, 'v', format('%d', version), 'b', ARGV[2])
call('PEXPIRE', k, ARGV[3])
local old = call('ZRANGEBYSCORE', kBoard, '-inf', now, 'LIMIT', 0, 8)
if #old > 0 then call('ZREM', kBoard, unpack(old)) end
call('ZADD', kBoard, now + 1000 * ARGV[3], ARGV[4])
tick('post', version)
return first and ARGV[2] or version
