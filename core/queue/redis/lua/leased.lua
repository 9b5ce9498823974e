-- leased.lua: the jobs of a run that are leased. Changes nothing.
-- Needs: base, small, locks, jobs. Does: reads about 1000 leases of all runs; inspect.go calls it
-- until none is left. ARGV: run id, session to begin at or '', cursor in it. Returns: {session to
-- continue at or '', cursor, index, node, when its lease began (µs), …}; -1 when the run is
-- unknown.
local no = call('HGET', kIDs, ARGV[1])
if not (no and run(tonumber(no))) then return -1 end
local sids, out, read = call('ZRANGE', kSessions, 0, -1), { '', '0' }, 0
table.sort(sids)
for _, sid in ipairs(sids) do
  local cursor = sid == ARGV[2] and ARGV[3] or '0'
  local more = sid >= ARGV[2]
  while more do
    if read >= 1000 then
      out[1], out[2] = sid, cursor
      return out
    end
    local page = call('HSCAN', pSession .. sid .. xLeases, cursor, 'COUNT', 256)
    cursor, more = page[1], page[1] ~= '0'
    for i = 1, #page[2], 2 do
      local its, idx = string.match(page[2][i], '^(%d+)/(%d+)$')
      local l = its == no and leaseof(page[2][i + 1])
      read = read + 1
      if l then
        for _, v in ipairs({ tonumber(idx), call('HGET', kNodes, sid) or '?', wall - age + l.since }) do out[#out + 1] = v end
      end
    end
  end
end
return out
