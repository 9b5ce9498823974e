-- adjust.lua: pauses, resumes, reweights runs, sets how many of their jobs run at once, or releases
-- waves of them; control.go calls it until all of each wave is released.
-- Needs: base, locks. Does: releases up to a wave's end, or to the end of 1024 segments that are
-- not due, 4096 for all, and counts what of them is released.
-- ARGV: msgpack of {run id, pause 1 | resume 0 | '', weight | '', max in flight | '', limit | '',
-- …}.
-- Returns: for each run 1; 2 when targets of the wave are left; 0 when the run is over; -1 when it
-- is unknown.
-- Bounds: control.go sends at most 256.
local asks = unpk(ARGV[1])
local ids, answers, segments, changed = {}, {}, 4096, false
for i = 1, #asks, 5 do ids[#ids + 1] = asks[i] end
local nos = call('HMGET', kIDs, unpack(ids))
for i, no in ipairs(nos) do nos[i] = no or '-' end
smallruns(nos)

-- most sets how many jobs of a run are leased at once. Small runs share their config: one that
-- differs is small no more.
local function most(f, n)
  if n == f.maxif then return end
  grow(f)
  local cfg = { unpk(call('HGET', f.k, 'c')) }
  cfg[5], f.maxif = n, n
  call('HSET', f.k, 'c', pack(unpack(cfg)))
end

-- release takes the wave to limit, or part of the way: then false.
local function release(f, limit)
  local old, by, late, whole = f.limit, f.k .. xByIndex, 0, true
  if limit == 0 or limit > f.total then limit = f.total end
  if limit <= old then return true end
  if not f.small then
    local cut = call('ZREVRANGEBYSCORE', by, '(' .. old, '-inf', 'LIMIT', 0, 1) -- may continue behind the old limit
    local n = min(1024, segments)
    local page = n > 0 and call('ZRANGEBYSCORE', by, old, '(' .. limit, 'LIMIT', 0, n) or {}
    segments = segments - #page
    if n == 0 then return false end
    if #page == n then
      local _, b = range(page[n])
      if b < limit then limit, whole = b, false end
    end
    for _, list in ipairs({ cut, page }) do
      for _, m in ipairs(list) do
        local a, b = range(m)
        late = late + max(0, min(b, limit) - max(a, old))
      end
    end
    defer(f, late)
    if limit == f.total then call('UNLINK', by) end
  end
  f.limit, f.tell = limit, true
  return whole
end

for i, no in ipairs(nos) do
  local f, p = tonumber(no) and run(tonumber(no)), 5 * i - 3
  if not f then
    answers[i] = -1
  elseif f.phase > PAUSED or f.complete then
    answers[i] = 0
  else
    local phase = asks[p] == '1' and PAUSED or asks[p] == '0' and ACTIVE or f.phase
    f.tell, f.phase = f.tell or phase ~= f.phase, phase
    if asks[p + 1] ~= '' then f.weight = tonumber(asks[p + 1]) end
    if asks[p + 2] ~= '' then most(f, tonumber(asks[p + 2])) end
    answers[i] = (asks[p + 3] == '' or release(f, tonumber(asks[p + 3]))) and 1 or 2
    touch(f)
    changed = true
  end
end
if changed then flush() end
return answers
