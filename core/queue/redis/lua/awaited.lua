-- awaited.lua: how many suspended jobs of a run wait for each event. Changes nothing.
-- Needs: base, progress. Does: counts at most 256 events; inspect.go calls it until none is left.
-- ARGV: run id, event to begin behind, or ''. Returns: {more 1 | 0, event, jobs, …}; -1 when the
-- run is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
return f and awaited(f, ARGV[2]) or -1
