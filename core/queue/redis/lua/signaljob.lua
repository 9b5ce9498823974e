-- signaljob.lua: ends the suspension of one job that waits for an event.
-- Needs: base, locks, jobs. ARGV: run id, index, event. Returns: 1; 0 where it does not wait for
-- it; 2 where the run has no such job; -1 without the run.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
local idx = tonumber(ARGV[2])
if idx >= f.total then return 2 end
if call('ZREM', f.k .. xEvents, char(#ARGV[3]) .. ARGV[3] .. spack('>I4', idx)) == 0 then return 0 end
call('ZREM', f.k .. xSuspended, idx)
again(f, idx)
f.duedirty, f.tell = true, true
touch(f)
flush()
return 1
