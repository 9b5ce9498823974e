-- awaited.lua: how many suspended jobs of a run wait for each event. Changes nothing.
-- Needs: base. Does: counts at most 256 events, by name from behind FROM on; inspect.go calls it until none is left.
-- ARGV: run id, event to begin behind, or ''. Returns: {more 1 | 0, event, jobs, …}; -1 when the run is unknown.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return -1 end
local function last(event) return '(' .. event .. '\255\255\255\255\255' end
local from, out = ARGV[2] == '' and '-' or last(char(#ARGV[2]) .. ARGV[2]), { 0 }
for _ = 1, 256 do
  local m = call('ZRANGEBYLEX', f.k .. xEvents, from, '+', 'LIMIT', 0, 1)[1]
  if not m then return out end
  local event = sub(m, 1, -5)
  from = last(event)
  out[#out + 1] = sub(event, 2)
  out[#out + 1] = call('ZLEXCOUNT', f.k .. xEvents, '[' .. event, from)
end
out[1] = 1
return out
