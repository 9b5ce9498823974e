-- adopt.lua: a page of what a session holds. Writes the times.
-- Needs: base, locks, jobs. ARGV: session, cursor. Returns: {next cursor, flat (id, index, host,
-- token, attempt, data, state, why its run has ended or '', …)}; {'GONE'}.
-- Bounds: about 128 leases a page.
local sid = ARGV[1]
if not alive(sid) then return { 'GONE' } end
tick()
local page = call('HSCAN', pSession .. sid .. xLeases, ARGV[2], 'COUNT', 128)
local out = {}
for i = 1, #page[2], 2 do
  local no, idx = string.match(page[2][i], '^(%d+)/(%d+)$')
  local f, l = no and run(tonumber(no)), leaseof(page[2][i + 1])
  if f and l then
    idx = tonumber(idx)
    local _, _, _, data, big = target(f, idx)
    if big then data = call('HGET', f.k .. xData, idx) or '' end
    local state, over = select(3, jobstate(f, idx)), cleanup(f, idx) == 2 and reasonof(f) or ''
    for _, v in ipairs({ f.id, idx, l.host, l.token, l.attempt, data, state, over }) do out[#out + 1] = v end
  end
end
return { page[1], out }
