-- guest.lua: makes a leased job the guest of a host that is not its own, or ends that. A host has one guest; one whose lease has ended is none.
-- Needs: base, locks, jobs. Does: writes who is the guest of the host.
-- ARGV: session, run id, index, token, host, '1' to leave. Returns: {fence}; {0} where another job is the guest; {-1} where the lease is not this one; {'GONE'}.
local sid, token, host = ARGV[1], tonumber(ARGV[4]), ARGV[5]
if not alive(sid) then return { 'GONE' } end
local no = call('HGET', kIDs, ARGV[2])
local f = no and run(tonumber(no))
local key = f and f.pre .. ARGV[3]
local function holds(session, job, lease)
  local l = leaseof(call('HGET', pSession .. session .. xLeases, job))
  return l and l.token == lease
end
if not key or not holds(sid, key, token) then return { -1 } end
local other, before, lease = call('HGET', kGuests, host), '', 0
if other then other, before, lease = unpk(other) end
local own = before == key and lease == token
if ARGV[6] == '1' then
  if own then call('HDEL', kGuests, host) end
  return { 0 }
end
if not own and other and holds(other, before, lease) then return { 0 } end
seq = max(seq, now) + 1
call('HSET', kGuests, host, pack(sid, key, token))
tick('seq', seq)
return { seq }
