-- close.lua: ends a session; queue.go calls it until it answers 0.
-- Needs: base, locks, jobs. Does: gives back at most 128 leases as by Return, then removes the
-- session.
-- ARGV: session. Returns: {leases that are left}; {'GONE'}.
local sid = ARGV[1]
if not alive(sid) then return { 'GONE' } end
for _, l in ipairs((held(sid, 128))) do ack(l.f, l.idx, l, RETURN, 0, 0, false, '', '', '', 0) end
activate(64)
flush()
local k = session(sid).k
local left = call('HLEN', k) - call('HEXISTS', k, '')
if left == 0 then
  call('ZREM', kSessions, sid)
  call('HDEL', kNodes, sid)
  call('UNLINK', k)
end
return { left }
