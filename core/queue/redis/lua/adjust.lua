-- adjust.lua: pauses, resumes, reweights a run, or releases a wave of it; control.go calls it until all of the wave is released.
-- Needs: base, locks. Does: releases up to the wave's end, or to the end of 1024 segments that are not due, and counts what of them is released.
-- ARGV: run id, pause 1 | resume 0 | '', weight | '', limit | ''.
-- Returns: 1; 2 when targets of the wave are left; 0 when the run is over; -1 when it is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
if f.phase > PAUSED or f.complete then return 0 end
if ARGV[2] == '1' then f.phase = PAUSED elseif ARGV[2] == '0' then f.phase = ACTIVE end
if ARGV[3] ~= '' then f.weight = tonumber(ARGV[3]) end
local answer = 1
if ARGV[4] ~= '' then
  local limit, old, by, late = tonumber(ARGV[4]), f.limit, f.k .. xByIndex, 0
  if limit == 0 or limit > f.total then limit = f.total end
  if limit > old and f.small then
    f.limit = limit
  elseif limit > old then
    local cut = call('ZREVRANGEBYSCORE', by, '(' .. old, '-inf', 'LIMIT', 0, 1) -- may go on behind the old limit
    local page = call('ZRANGEBYSCORE', by, old, '(' .. limit, 'LIMIT', 0, 1024)
    if #page == 1024 then
      local _, b = range(page[1024])
      if b < limit then limit, answer = b, 2 end
    end
    f.limit = limit
    for _, list in ipairs({ cut, page }) do
      for _, m in ipairs(list) do
        local a, b = range(m)
        late = late + released(f, max(a, old), b)
      end
    end
    defer(f, late)
    if limit == f.total then call('UNLINK', by) end
  end
end
touch(f)
flush()
return answer
