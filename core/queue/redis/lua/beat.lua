-- beat.lua: keeps a session and all its leases alive.
-- Needs: base, locks, jobs, forget. Does: moves the deadline; forgets at most 8 old runs.
-- ARGV: session, session TTL µs. Returns: {now, deadline, jobs to stop flat (id, index, …)}; {'GONE'}.
local deadline = call('ZSCORE', kSessions, ARGV[1])
if not deadline or tonumber(deadline) <= now then return { 'GONE' } end
call('ZADD', kSessions, now + ARGV[2], ARGV[1])
forget(8)
flush()
return { now, now + ARGV[2], stopping(ARGV[1]) }
