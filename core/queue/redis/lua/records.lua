-- records.lua: what a small run keeps of its records.
-- Needs: nothing.
-- Does: with WAIT, and no record behind SKIP, notes that somebody waits for the next one.
-- ARGV: run id, skip, wait 1 | ''. Returns: {run number, records}; {run number} where the run has keys of its own; -1 without the run.
local no = redis.call('HGET', kIDs, ARGV[1])
if not no then return -1 end
local text = redis.call('HGET', kSmall, no)
if not text then return { tonumber(no) } end
local log = select(11, cmsgpack.unpack(text))
if ARGV[3] == '1' then
  local p, n = 1, 0
  while p <= #log do
    local _, _, _, _, reason, detail = struct.unpack('>I4I4BI2I2I4', log, p)
    p, n = p + 17 + reason + detail, n + 1
  end
  if n <= tonumber(ARGV[2]) then redis.call('HINCRBY', kWatched, no, 1) end
end
return { tonumber(no), log }
