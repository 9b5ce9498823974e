-- publish.lua: adds messages to a topic of the feed.
-- Needs: base. Does: one stream, trimmed to about KEEP entries, which Redis forgets after TTL. An
-- entry's id is the clock when the topic began, and the number of the message, from 1: so a
-- follower can tell what it missed, and an old cursor from one of this life.
-- ARGV: escaped topic, keep, TTL ms, messages to the end. Returns: number of the last one.
-- Bounds: 256 messages of 64 KiB.
local k = pFeed .. ARGV[1]
local last = call('XREVRANGE', k, '+', '-', 'COUNT', 1)[1]
local life, n = format('%d', now), 0
if last then
  life, n = string.match(last[1], '^(%d+)-(%d+)$')
end
for i = 4, #ARGV do
  n = n + 1
  call('XADD', k, format('%s-%d', life, n), 'm', ARGV[i])
end
call('XTRIM', k, 'MAXLEN', '~', ARGV[2])
call('PEXPIRE', k, ARGV[3])
tick()
return n
