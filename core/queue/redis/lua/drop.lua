-- drop.lua: takes a run out of the queue that came back older, so that its id can be submitted
-- again.
-- Needs: base, locks, jobs. Does: ends the run under its number, which nothing finds by its id any
-- more; what is left of it is swept and forgotten like any other.
-- ARGV: run id, how many outcomes are recorded. Returns: 1 when the queue does not have the run; 0
-- when it stays.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return 1 end
local o = outcomes(f)
if f.phase ~= PAUSED or f.inf > 0 or o[1] + o[2] + o[3] + o[4] + o[5] + o[6] + o[7] + o[8] >= tonumber(ARGV[2]) then return 0 end
call('HDEL', kIDs, ARGV[1])
stop(f, CANCELLED, DROPPED)
flush()
return 1
