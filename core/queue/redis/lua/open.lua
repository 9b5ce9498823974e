-- open.lua: starts a session.
-- Needs: base. ARGV: session id, node, session TTL µs. Returns: 1, or 0 when the id was used
-- before.
if call('ZSCORE', kSessions, ARGV[1]) or call('EXISTS', pSession .. ARGV[1] .. xLeases) == 1 then return 0 end
call('ZADD', kSessions, age + ARGV[3], ARGV[1])
call('HSET', kNodes, ARGV[1], ARGV[2])
call('HSET', pSession .. ARGV[1] .. xLeases, '', PAD)
flush()
return 1
