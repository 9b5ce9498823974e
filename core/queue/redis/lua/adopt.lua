-- adopt.lua: a page of what a session holds. Changes nothing.
-- Needs: base, locks, jobs. ARGV: session, cursor. Returns: {next cursor, flat (id, index, host, token, attempt, data, state, …)}; {'GONE'}.
-- Bounds: about 128 leases a page.
local sid = ARGV[1]
local deadline = call('ZSCORE', kSessions, sid)
if not deadline or tonumber(deadline) <= now then return { 'GONE' } end
local page = call('SSCAN', pSession .. sid .. xLeases, ARGV[2], 'COUNT', 128)
local out = {}
for _, key in ipairs(page[2]) do
  local no, idx = string.match(key, '^(%d+)/(%d+)$')
  no, idx = tonumber(no), tonumber(idx)
  local f = run(no)
  local l = f and leaseof(call('HGET', f.k .. xLeases, idx))
  if l and l.sid == sid then
    local _, _, _, data, big = target(f, idx)
    if big then data = call('HGET', f.k .. xData, idx) or '' end
    local state = select(3, jobstate(f, idx))
    for _, v in ipairs({ f.id, idx, l.host, l.token, l.attempt, data, state }) do out[#out + 1] = v end
  end
end
return { page[1], out }
