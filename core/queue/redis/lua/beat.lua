-- beat.lua: keeps a session and all its leases alive.
-- Needs: base, locks, jobs, forget. Does: moves the deadline; forgets at most 8 old runs.
-- ARGV: session, session TTL µs. Returns: {clock, deadline by it, jobs to stop flat (id, index, …)}; {'GONE'}.
if not alive(ARGV[1]) then return { 'GONE' } end
call('ZADD', kSessions, age + ARGV[2], ARGV[1])
forget(8)
flush()
return { wall, wall + ARGV[2], stopping(ARGV[1]) }
