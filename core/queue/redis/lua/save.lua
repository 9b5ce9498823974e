-- save.lua: keeps the state that a leased job has reached.
-- Needs: base, locks, jobs. Does: writes the job's state and, at the first, notes in the lease that
-- there is one.
-- ARGV: session, run id, index, token, number, state. Returns: {1}; {0} where the lease is not this
-- one; {'GONE'}.
local sid, idx, number = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[5])
if not alive(sid) then return { 'GONE' } end
local no = call('HGET', kIDs, ARGV[2])
local f = no and run(tonumber(no))
local k = pSession .. sid .. xLeases
local l = f and leaseof(call('HGET', k, f.pre .. idx))
if not l or l.token ~= tonumber(ARGV[4]) then return { 0 } end
if l.hasj then
  local token, last = select(6, jobstate(f, idx))
  if token == l.token and last >= number then return { 1 } end
end
local small = f.small
setjob(f, idx, l.hasj and cleanup(f, idx) or 0, l.attempt - 1, l.crashes, ARGV[6], '', false, l.token, number)
if not l.hasj then call('HSET', k, f.pre .. idx, pack(l.token, l.since, l.host, l.attempt, l.crashes, true, l.ha, l.group)) end
if small then flush() else tick() end
return { 1 }
