-- cancel.lua: cancels or stops a run; queue.go calls it until nothing is left to sweep.
-- Needs: base, locks, jobs. Does: from the first call on, no job of the run starts; ends at most
-- 128 entries as cancelled.
-- ARGV: run id, reason, stop 1 | ''. Returns: entries may be left 1 | 0; -1 when the run is
-- unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
stop(f, ARGV[3] == '1' and STOPPED or CANCELLED, ARGV[2])
local left = 0
if call('ZSCORE', kSweep, f.no) and sweep(f, 128) <= 0 then left = 1 end
touch(f)
flush()
return left
