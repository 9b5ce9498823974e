-- accept.lua: the one atomic step of Submit.
-- Needs: base, locks, jobs, forget.
-- Does: accepts the run whose target list is at run number NO (uploaded before), or inline in ARGV
-- when NO is 0; makes its tenant; makes what is due at once ready; counts what has finished, and
-- stops the run where that reaches its failure threshold; forgets at most 2 old runs.
-- ARGV: id, digest, no, tenant, tenant weight, packed config (struct, see config() in submit.go), n
-- ranges due at once flat (from, to, …), m segments flat (due µs, from, to, …), j chunks, payload,
-- finished ranges (see xFinished), large data flat (index, bytes, …) to the end.
-- Returns: {created 1 | 0, run number}; {'CONFLICT'}; {'GONE'} if the upload has expired.
-- Bounds: what ARGV holds; submit.go sends at most 64 KiB inline.

local id, digest, no = ARGV[1], ARGV[2], tonumber(ARGV[3])
local old = call('HGET', kIDs, id)
if old then
  local small = call('HGET', kSmall, old)
  local had
  if small then had = select(3, unpk((select(16, unpk(small))))) else had = call('HGET', pRun .. old, 'd') end
  if had ~= digest then return { 'CONFLICT' } end
  return { 0, tonumber(old) }
end
if no == 0 then no = call('HINCRBY', kMeta, 'run', 1) end
local k = pRun .. no

local total, limit, settledjobs, lost
do -- a script has 200 local variables at most
  local weight, prio, all, most, maxif, pergroup, stopafter, stopunreach, disruptive, hold, maxcrash, bint, bmax, bjit,
    chunksize, keep, late, paused, o1, o2, o3, o4, o5, o6, o7, o8, first = sunpack('>I4i4I4I4I4I4I4I4BBI4I7I7dI4I7I4BI4I4I4I4I4I4I4I4I4', ARGV[6])
  -- The targets are the first key of an upload: if they have not expired, none of its keys has.
  if ARGV[3] ~= '0' and call('HLEN', k .. xTargets) ~= math.ceil(all / chunksize) then return { 'GONE' } end
  local t = tenantof(ARGV[4])
  local tno = t.no
  t.weight, t.weighed = tonumber(ARGV[5]), true
  call('SADD', t.k .. xRuns, no)
  call('HSET', k, 'd', digest, 'r', '', 'l', late,
    'c', pack(id, tno, prio, all, maxif, pergroup, stopafter, stopunreach, disruptive == 1, hold == 1, maxcrash, bint,
      bmax, bjit, chunksize, keep, format('%02d%014d', 10 - prio, no), no .. '/'),
    'o', pack(o1, o2, o3, o4, o5, o6, o7, o8),
    's', pack(paused == 1 and PAUSED or ACTIVE, false, most, 0, 0, -1, 0, weight, false, false, 0, age, 0, 0))
  total, limit, settledjobs, lost = all, most, o1 + o2 + o3 + o4 + o5 + o6 + o7 + o8, first
end
call('HSET', kIDs, id, no)

local p = 7
local function next()
  p = p + 1
  return ARGV[p - 1]
end

expire({ k = k }, nil) -- what was uploaded could have expired until here
call('HSETNX', kLocks, '', PAD)
local f = run(no)
f.tell = true
for _ = 1, tonumber(next()) do
  local a = tonumber(next())
  addrange(f, a, tonumber(next()))
end
for _ = 1, tonumber(next()) do
  local at, a = tonumber(next()), next()
  local m = a .. ':' .. next()
  call('ZADD', k .. xSegments, at, m)
  if limit < total then call('ZADD', k .. xByIndex, a, m) end
end
for i = 1, tonumber(next()) do call('HSET', k .. xTargets, i - 1, next()) end
local payload = next()
if payload and payload ~= '' then call('SET', k .. xPayload, payload) end
local ended = next()
if ended and ended ~= '' then call('SET', k .. xFinished, ended) end
while ARGV[p] do
  local idx = next()
  call('HSET', k .. xData, idx, next())
end
if settledjobs > 0 then
  f.odirty = true -- all of it may have finished
  if lost < 4294967295 then threshold(f, LOST, lost) end
  threshold(f, FAILED, 0)
  threshold(f, UNREACHABLE, 0)
end
ripen(f, 64)
forget(2)
flush()
return { 1, no }
