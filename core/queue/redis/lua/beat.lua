-- beat.lua: keeps a session and all its leases alive.
-- Needs: base, locks, jobs, forget, trust. Does: moves the deadline; forgets at most 8 old runs.
-- ARGV: session, session TTL µs, highest token that the caller was given. Returns: {clock, deadline
-- by it, jobs to stop flat (id, index, …)}; {'GONE'}.
local live = alive(ARGV[1])
if live then call('ZADD', kSessions, age + ARGV[2], ARGV[1]) end
distrusted(tonumber(ARGV[3] or 0))
if not live then return { 'GONE' } end
forget(8)
flush()
return { wall, wall + ARGV[2], stopping(ARGV[1]) }
