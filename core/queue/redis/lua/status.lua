-- status.lua: a run's progress. Changes nothing.
-- Needs: base. ARGV: run id, event of closed windows, µs ahead. Returns: {phase, complete, total, limit, in flight, waiting, suspended, blocked, dead, served µs,
-- ready, outcomes × 8, tenant, reason, timed segments, ready for µs, deferred, released jobs of segments that are not due, jobs that become due ahead,
-- max in flight, weight of the tenant}; -1 when the run is unknown.
-- Bounds: O(log n), and reads at most 4096 segments and 4096 suspended jobs that are due and that no turn has seen yet, and 4096 segments ahead.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
local k, o, deferred, late, soon, within = f.k, outcomes(f), 0, 0, 0, tonumber(ARGV[3])
if f.phase < STOPPED then
  local event = char(#ARGV[2]) .. ARGV[2]
  late = f.small and (f.due > wall and released(f, 0, f.total) or 0) or tonumber(call('HGET', k, 'l') or 0)
  deferred = late + call('ZLEXCOUNT', k .. xEvents, '[' .. event, '(' .. event .. '\255\255\255\255\255')
  if deferred > 0 then -- else nothing is taken off
    for _, m in ipairs(call('ZRANGEBYSCORE', k .. xSegments, '-inf', wall, 'LIMIT', 0, 4096)) do
      local n = released(f, range(m))
      deferred, late = deferred - n, late - n
    end
    local due = call('ZRANGEBYSCORE', k .. xSuspended, '-inf', now, 'LIMIT', 0, 4096)
    for i, idx in ipairs(due) do due[i] = event .. spack('>I4', idx) end
    if #due > 0 then
      for _, v in ipairs(call('ZMSCORE', k .. xEvents, unpack(due))) do
        if v then deferred = deferred - 1 end
      end
    end
  end
end
if f.small then
  if f.phase == ACTIVE and f.due > wall and f.due <= wall + within then soon = late end
elseif f.phase == ACTIVE and within > 0 then
  for _, m in ipairs(call('ZRANGEBYSCORE', k .. xSegments, wall + 1, wall + within, 'LIMIT', 0, 4096)) do soon = soon + released(f, range(m)) end
  soon = soon + call('ZCOUNT', k .. xWaiting, now + 1, now + within) + call('ZCOUNT', k .. xSuspended, now + 1, now + within)
end
return { f.phase, f.complete and 1 or 0, f.total, f.limit, f.inf, call('ZCARD', k .. xWaiting), call('ZCARD', k .. xSuspended),
  call('HLEN', k .. xBlocked), call('HLEN', k .. xDead), floor(f.served), f.ready and 1 or 0,
  o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8],
  call('HGET', f.t.k, 'n') or '', reasonof(f), f.small and (f.due > 0 and 1 or 0) or call('ZCARD', k .. xSegments), f.ready and age - f.readyat or 0, max(deferred, 0),
  max(late, 0), soon, f.maxif, f.t.weight }
