-- redrive.lua: gives dead jobs a new life; queue.go calls it until it answers no more.
-- Needs: base, locks, jobs. Does: ends at most 128 entries of a run that is being swept; else at most 128 jobs: takes their outcome back, and
-- makes a stopped run active again.
-- ARGV: run id, then indexes, or none for all. Returns: {how many, more 1 | 0}; {-1} unknown, {-2} cancelled,
-- {-3} a part was swept (call again), {-4} index outside the run.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return { -1 } end
if f.phase == CANCELLED then return { -2 } end
for i = 2, #ARGV do
  if tonumber(ARGV[i]) >= f.total then return { -4 } end
end
if call('ZSCORE', kSweep, f.no) then
  sweep(f, 128)
  touch(f)
  flush()
  return { -3 }
end
local jobs, more = {}, 0
if #ARGV > 1 then
  for i = 2, #ARGV do
    if call('HDEL', f.k .. xDead, ARGV[i]) == 1 then jobs[#jobs + 1] = tonumber(ARGV[i]) end
  end
else
  local page = call('HRANDFIELD', f.k .. xDead, 128)
  for _, idx in ipairs(page) do
    call('HDEL', f.k .. xDead, idx)
    jobs[#jobs + 1] = tonumber(idx)
  end
  more = call('EXISTS', f.k .. xDead)
end
if #jobs > 0 then
  local o = outcomes(f)
  o[LOST] = o[LOST] - #jobs
  f.odirty = true
  for _, idx in ipairs(jobs) do
    again(f, idx)
    record(f, idx, 1, 0, 0, '', '') -- the log stays whole: Check replays it
    call('HDEL', f.k .. xJobs, idx)
  end
  if f.phase ~= PAUSED then f.phase, f.reason, f.rdirty = ACTIVE, '', true end
  f.complete = false
  call('ZREM', kDone, f.no)
  expire(f, nil)
  touch(f)
end
flush()
return { #jobs, more }
