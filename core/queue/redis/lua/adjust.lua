-- adjust.lua: pauses, resumes, reweights a run, or releases a wave of it.
-- Needs: base, locks. ARGV: run id, pause 1 | resume 0 | '', weight | '', limit | ''.
-- Returns: 1; 0 when the run is over; -1 when it is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
if f.phase > PAUSED or f.complete then return 0 end
if ARGV[2] == '1' then f.phase = PAUSED elseif ARGV[2] == '0' then f.phase = ACTIVE end
if ARGV[3] ~= '' then f.weight = tonumber(ARGV[3]) end
if ARGV[4] ~= '' then
  local limit = tonumber(ARGV[4])
  if limit == 0 or limit > f.total then limit = f.total end
  f.limit = max(f.limit, limit)
end
touch(f)
flush()
return 1
