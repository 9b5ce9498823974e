-- wait.lua: what an idle node asks before it blocks.
-- Needs: base. Does: makes the session the timekeeper when nobody keeps the next due time.
-- ARGV: session, backstop µs. Returns: {clock, work 1 | 0, wake at µs or -1 when another keeps the
-- time}.
local work = call('EXISTS', kReady) == 1 or call('EXISTS', kSweep) == 1 or call('ZCOUNT', kClosing, '-inf', now) > 0
local head = call('ZRANGE', kDue, 0, 0, 'WITHSCORES')[2]
head = head and tonumber(head)
if head and head <= now then work = true end
local dead = call('ZRANGE', kSessions, 0, 0, 'WITHSCORES')
if dead[2] and tonumber(dead[2]) <= age then work = true end
if work then return { wall, 1, -1 } end
local at = -1
if head and (tkat <= now or head < tkat or tks == ARGV[1]) then
  at = min(head, now + ARGV[2])
  tick('tkat', at, 'tks', ARGV[1])
  at = at - ahead
end
return { wall, 0, at }
