-- holders.lua: which jobs hold the locks of a host and of an HA group. Changes nothing.
-- Needs: base, small, locks, jobs. ARGV: host, HA group ('' is none). Returns: for each lock that
-- is held its kind, run id, index, 1 where it is kept for the job, and when its lease began (µs) or
-- -1.
-- Bounds: two locks, one look-up a session each.
local out = {}
local function add(lock)
  local holder = getlock(lock)
  local no, idx = string.match(holder or '', '^(%d+)/(%d+)$')
  local f = no and run(tonumber(no))
  if not f then return end
  local since = -1
  for _, sid in ipairs(call('ZRANGE', kSessions, 0, -1)) do
    local l = leaseof(call('HGET', pSession .. sid .. xLeases, f.pre .. idx))
    if l then since = wall - age + l.since end
  end
  for _, v in ipairs({ sub(lock, 1, 1), f.id, tonumber(idx), call('HEXISTS', f.k .. xHeirs, idx), since }) do
    out[#out + 1] = v
  end
end
add(hostlock(ARGV[1]))
if ARGV[2] ~= '' then add(halock(ARGV[2])) end
return out
