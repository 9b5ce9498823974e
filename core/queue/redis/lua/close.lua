-- close.lua: ends a session; queue.go calls it until it answers 0.
-- Needs: base, locks, jobs. Does: gives back at most 128 leases as by Return, then removes the session.
-- ARGV: session. Returns: {leases that are left}; {'GONE'}.
local sid = ARGV[1]
local deadline = call('ZSCORE', kSessions, sid)
if not deadline or tonumber(deadline) <= now then return { 'GONE' } end
local s = session(sid)
local keys = call('SRANDMEMBER', s.k, 128)
for _, key in ipairs(keys) do
  local no, idx = string.match(key, '^(%d+)/(%d+)$')
  no, idx = tonumber(no), tonumber(idx)
  local f = run(no)
  local l = f and leaseof(call('HGET', f.k .. xLeases, idx))
  if l and l.sid == sid then
    ack(f, idx, l, RETURN, 0, 0, false, '', '', '')
  else
    s.del[#s.del + 1] = key
  end
end
activate(64)
flush()
local left = call('SCARD', s.k)
if left == 0 then
  call('ZREM', kSessions, sid)
  call('HDEL', kNodes, sid)
end
return { left }
