-- event.lua: ends the suspension of jobs that wait for an event, or with a reason the jobs
-- themselves, as cancelled; control.go calls it until it answers no next index.
-- Needs: base, locks, jobs. Does: at most 128 jobs, by index from FROM on, so that a job which is
-- suspended again meanwhile is not signalled for ever.
-- ARGV: run id, event, from [, reason]. Returns: {how many, next index or -1}; {-1, -1} when the
-- run is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return { -1, -1 } end
local event = char(#ARGV[2]) .. ARGV[2]
local page, n, next = call('ZRANGEBYLEX', f.k .. xEvents, '[' .. event .. spack('>I4', ARGV[3]), '(' .. event .. '\255\255\255\255\255', 'LIMIT', 0, 128), 0, -1
for _, m in ipairs(page) do
  local idx = sunpack('>I4', m, #event + 1)
  if call('ZREM', f.k .. xSuspended, idx) == 1 then
    if ARGV[4] then cancelsingle(f, idx, ARGV[4]) else again(f, idx) end
    n = n + 1
  end
  next = idx + 1
end
if #page > 0 then
  call('ZREM', f.k .. xEvents, unpack(page))
  f.duedirty, f.tell = true, true
  touch(f)
  flush()
end
return { n, #page == 128 and next or -1 }
