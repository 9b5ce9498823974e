-- guest.lua: makes a leased job the guest of a host that is not its own, or ends that. A host has
-- one guest; one whose lease has ended is none.
-- Needs: base, locks, jobs, trust. Does: writes who is the guest of the host, with its fence.
-- A failover may have lost who entered, or who left. So a guest enters again under the fence that
-- it has: it is the guest unless one of a higher fence is. Until the queue is trusted again, nobody
-- else enters.
-- ARGV: session, run id, index, token, host, '1' to leave, fence of a guest that enters again or 0,
-- highest token that the caller was given.
-- Returns: {fence}; {0} where another job is the guest; {-1} where the lease is not this one; {-2}
-- where the queue is distrusted; {'GONE'}.
local sid, token, host, fence = ARGV[1], tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[7])
local doubt = distrusted(tonumber(ARGV[8]))
if not alive(sid) then return { 'GONE' } end
local no = call('HGET', kIDs, ARGV[2])
local f = no and run(tonumber(no))
local key = f and f.pre .. ARGV[3]
local function holds(session, job, lease)
  local l = leaseof(call('HGET', pSession .. session .. xLeases, job))
  return l and l.token == lease
end
if not key or not holds(sid, key, token) then return { -1 } end
local other, before, lease, last = call('HGET', kGuests, host), '', 0, 0
if other then other, before, lease, last = unpk(other) end
local own = before == key and lease == token
if ARGV[6] == '1' then
  if own then call('HDEL', kGuests, host) end
  return { 0 }
end
if fence == 0 and doubt then return { -2 } end
local later = fence == 0 or fence < (last or 0) -- a note of an older version has no fence
if not own and other and later and holds(other, before, lease) then return { 0 } end
if fence == 0 then fence = max(seq, now) + 1 end
call('HSET', kGuests, host, pack(sid, key, token, fence))
tick('seq', max(seq, fence))
return { fence }
