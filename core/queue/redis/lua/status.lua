-- status.lua: a run's progress. Changes nothing.
-- Needs: base. ARGV: run id. Returns: {phase, complete, total, limit, in flight, waiting, suspended, blocked, dead, served µs,
-- ready, outcomes × 8, tenant, reason, timed segments, ready for µs}; -1 when the run is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
local k, o = f.k, outcomes(f)
return { f.phase, f.complete and 1 or 0, f.total, f.limit, f.inf, call('ZCARD', k .. xWaiting), call('ZCARD', k .. xSuspended),
  call('HLEN', k .. xBlocked), call('HLEN', k .. xDead), floor(f.served), f.ready and 1 or 0,
  o[1], o[2], o[3], o[4], o[5], o[6], o[7], o[8],
  call('HGET', f.t.k, 'n') or '', reasonof(f), call('ZCARD', k .. xSegments), f.ready and now - f.readyat or 0 }
