-- progress.lua: how far a run is. A library, which changes nothing.
-- Bounds: O(log n), and at most 4096 segments and 4096 suspended jobs that are due and that no turn
-- has seen yet, 4096 segments ahead, 256 events.

-- progress is {phase, complete, total, limit, in flight, waiting, suspended, blocked, served µs,
-- ready, outcomes × 8, tenant, reason, timed segments, ready for µs, deferred, released jobs of
-- segments that are not due, jobs that become due within so many µs, max in flight, weight of the
-- tenant}.
local function progress(f, event, within)
  local k, o, deferred, late, soon = f.k, outcomes(f), 0, 0, 0
  local waiting, suspended, blocked, segments = 0, 0, 0, f.small and f.due > 0 and 1 or 0
  if f.small then
    if f.phase < STOPPED and f.due > wall then
      late = released(f, 0, f.total)
      deferred = late
      if f.phase == ACTIVE and f.due <= wall + within then soon = late end
    end
  else
    waiting, suspended, blocked, segments = call('ZCARD', k .. xWaiting), call('ZCARD', k .. xSuspended), call('HLEN', k .. xBlocked), call('ZCARD', k .. xSegments)
    if f.phase < STOPPED then
      event = char(#event) .. event
      late = tonumber(call('HGET', k, 'l') or 0)
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
    if f.phase == ACTIVE and within > 0 then
      for _, m in ipairs(call('ZRANGEBYSCORE', k .. xSegments, wall + 1, wall + within, 'LIMIT', 0, 4096)) do soon = soon + released(f, range(m)) end
      soon = soon + call('ZCOUNT', k .. xWaiting, now + 1, now + within) + call('ZCOUNT', k .. xSuspended, now + 1, now + within)
    end
  end
  return { f.phase, f.complete and 1 or 0, f.total, f.limit, f.inf, waiting, suspended, blocked, floor(f.served), f.ready and 1 or 0,
    o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8], call('HGET', f.t.k, 'n') or '', reasonof(f), segments, f.ready and age - f.readyat or 0,
    max(deferred, 0), max(late, 0), soon, f.maxif, f.t.weight }
end

-- awaited is {more 1 | 0, event, jobs, …}: the next 256 events, by name from behind event from on,
-- '' for the first.
local function awaited(f, from)
  local function last(event) return '(' .. event .. '\255\255\255\255\255' end
  local out = { 0 }
  from = from == '' and '-' or last(char(#from) .. from)
  for _ = 1, 256 do
    local m = call('ZRANGEBYLEX', f.k .. xEvents, from, '+', 'LIMIT', 0, 1)[1]
    if not m then return out end
    local event = sub(m, 1, -5)
    from = last(event)
    out[#out + 1] = sub(event, 2)
    out[#out + 1] = call('ZLEXCOUNT', f.k .. xEvents, '[' .. event, from)
  end
  out[1] = 1
  return out
end
