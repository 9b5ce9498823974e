-- look.lua: progress and records of runs, of each at one moment. Changes nothing.
-- Needs: base, progress.
-- ARGV: event of closed windows, µs ahead, most records of a run or 0, msgpack of {run id, last
-- entry that was read, events too 1 | 0, …}.
-- Returns: msgpack of {for each run: 0 when it is unknown, 2 when it never had the entry, 1 and
--   {its progress}, records of a small run or '', {entry, its records, …} of others, more entries 1
--   | 0, {its events} as awaited says, …}.
-- Bounds: those of progress for each run; look.go sends at most 64. Of a run at most 128 entries,
-- or one behind 256 KiB of them; behind 2 MiB of all runs together no more is read, and there may
-- be more entries.

local asks = unpk(ARGV[4])
local event, within, most, left, out = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), 2097152, {}
local ids = {}
for i = 1, #asks, 3 do ids[#ids + 1] = asks[i] end
local nos = call('HMGET', kIDs, unpack(ids))
for i, no in ipairs(nos) do nos[i] = no or '-' end
smallruns(nos)

local function add(v) out[#out + 1] = v end

-- entries of f from entry on; false where that is not there.
local function entries(f, entry)
  local list, size, last, from, n = {}, 0, 2 * min(most, 128), entry == '0-0' and '-' or entry, min(most + 2, 4)
  if left <= 0 then return list, 1 end
  while true do
    local page = call('XRANGE', f.k .. xLog, from, '+', 'COUNT', n)
    for i, e in ipairs(page) do
      if entry == '0-0' or from ~= entry or i > 1 then
        if #list >= last or size > 262144 then return list, 1 end
        list[#list + 1] = e[1]
        list[#list + 1] = e[2][2]
        size, left = size + #e[2][2], left - #e[2][2]
      elseif e[1] ~= entry then
        return false
      end
    end
    if from == entry and not page[1] then return false end
    if #page < n then return list, 0 end
    from, n = '(' .. page[n][1], size < 32768 and 32 or 4
  end
end

for i, no in ipairs(nos) do
  local f = tonumber(no) and run(tonumber(no))
  local entry, events = asks[3 * i - 1], asks[3 * i]
  local list, more = {}, 0
  if f and most > 0 then
    if not f.small then list, more = entries(f, entry) elseif entry ~= '0-0' then list = false end
  end
  if not f or not list then
    add(f and 2 or 0)
  else
    local p = progress(f, event, within)
    add(1)
    add(p)
    add(f.small and most > 0 and f.log or '')
    add(list)
    add(more)
    add(events == 1 and p[7] > 0 and awaited(f, '') or {})
  end
end
return pack(out)
