-- event.lua: ends the suspension of jobs that wait for an event; queue.go calls it until it answers 0.
-- Needs: base, locks, jobs. ARGV: run id, event. Returns: how many, at most 128; -1 when the run is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
local prefix, n = char(#ARGV[2]) .. ARGV[2], 0
for _, m in ipairs(call('ZRANGEBYLEX', f.k .. xEvents, '[' .. prefix, '(' .. prefix .. '\255\255\255\255\255', 'LIMIT', 0, 128)) do
  local idx = sunpack('>I4', m, #prefix + 1)
  call('ZREM', f.k .. xEvents, m)
  if call('ZREM', f.k .. xSuspended, idx) == 1 then
    again(f, idx)
    n = n + 1
  end
end
f.duedirty = true
touch(f)
flush()
return n
