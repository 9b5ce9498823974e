-- small.lua: runs of few hosts. A part of base.lua: every script has it.
-- A small run is one record in kSmall and has no key of its own. As long as its jobs are only
-- leased and done, it stays so; whatever else happens to one of them makes it a run like any other
-- first: see grow. Small runs with consecutive numbers and one rank share a place among the ready
-- ones, a span: PPNNNNNNNNNNNNNN:END is for the runs from N to END-1. A run that is not ready any
-- more is not SPANNED; the span passes over it.

local READY, BORN, SPANNED, COMPLETE = 8, 16, 32, 64 -- flags, above the phase
local MAXLOG = 4096 -- bytes of records that a small run keeps itself

-- class: what runs with the same config share, as the metatable of their tables.
local function class(cfg)
  local c = classes[cfg]
  if not c then
    local level, maxif, stopafter, stopunreach, disruptive, hold, maxcrash, bint, bmax, bjit, keep = unpk(cfg)
    c = { __index = { small = true, cfg = cfg, prio = 10 - level, maxif = maxif, pergroup = 0, stopafter = stopafter, stopunreach = stopunreach,
      disruptive = disruptive, hold = hold, maxcrash = maxcrash, bint = bint, bmax = bmax, bjit = bjit, keep = keep, chunksize = 64, coff = -1, nq = 0,
      o = false, dirty = false, odirty = false, rec = false, tell = false, cands = false, ci = 0, cno = 0, heaped = false, entered = false, ahead = 0, rank = 0 } }
    c.forget = format('%d', now + keep * 1000)
    classes[cfg] = c
  end
  return c
end

local function encode(f)
  return pack(f.phase + (f.ready and READY or 0) + (f.born and BORN or 0) + (f.spanned and SPANNED or 0) + (f.complete and COMPLETE or 0),
    f.limit, f.cur, f.tag, f.weight, f.served, f.readyat, f.inf, f.due, f.outs, f.log, f.reason, f.tno, f.total, f.cfg, f.fix)
end

function smallrun(no, text)
  local flags, limit, cur, tag, weight, served, readyat, inf, due, outs, log, reason, tno, total, cfg, fix = unpk(text)
  local c, s = class(cfg), no .. ''
  local phase, complete = flags % 8, flags >= COMPLETE
  flags = flags % COMPLETE
  local spanned = flags >= SPANNED
  flags = flags % SPANNED
  local born, ready = flags >= BORN, flags % BORN >= READY
  local id, targets = unpk(fix)
  local maxif = c.__index.maxif
  local f = setmetatable({ no = no, s = s, k = pRun .. s, pre = s .. '/', id = id, t = tenant(tno), tno = tno, total = total, phase = phase,
    complete = complete, limit = limit, cur = cur, cend = due > 0 and 0 or total, tag = tag, weight = weight, ready = ready, born = born, young = not born,
    spanned = spanned, served = served, readyat = readyat, inf = inf, due = due, outs = outs, log = log, reason = reason, fix = fix,
    inz = ready and not spanned, can = phase == ACTIVE and (maxif == 0 or inf < maxif), rank0 = rank(inf, weight, tag),
    ord = (10 - c.__index.prio) * RUNS + no, cstr = targets, chost = sub(targets, 3, 2 + byte(targets, 2)) }, c)
  R[no] = f
  return f
end

-- newsmall notes the record of a run that was just submitted; ready ones are in a span.
local function newsmall(s, ready, paused, limit, tag, weight, due, tno, total, cfg, fix)
  local n = #smallset
  smallset[n + 1] = s
  smallset[n + 2] = pack((paused and PAUSED or ACTIVE) + (ready and READY + BORN + SPANNED or 0), limit, 0, tag, weight, 0, age, 0, due, '', '', '', tno, total, cfg, fix)
end

-- smallruns loads those of the runs with these numbers that are small, in one call.
function smallruns(nos)
  if #nos == 0 then return end
  for i, text in ipairs(call('HMGET', kSmall, unpack(nos))) do
    local no = tonumber(nos[i])
    if text and R[no] == nil then smallrun(no, text) end
  end
end

local function level(f) return format('%02d', 10 - f.prio) end

-- grow makes a small run one like any other, at once; what the caller changes of it later is
-- written as always.
function grow(f)
  if not f.small then return end
  local k, t, id, targets, digest, payload = f.k, f.t, unpk(f.fix)
  local late = f.due > 0 and released(f, 0, f.total) or 0
  outcomes(f)
  f.m = level(f) .. format('%014d', f.no)
  call('HSET', k, 'd', digest, 'r', f.reason, 'l', late,
    'c', pack(id, f.tno, f.prio, f.total, f.maxif, 0, f.stopafter, f.stopunreach, f.disruptive, f.hold, f.maxcrash, f.bint, f.bmax, f.bjit, 64, f.keep, f.m, f.pre),
    'o', pack(unpack(f.o)),
    's', pack(f.phase, f.complete, f.limit, f.cur, f.cend, -1, f.tag, f.weight, f.ready, f.born, f.served, f.readyat, f.inf, 0))
  call('HSET', k .. xTargets, 0, targets)
  if payload == true then
    payload = call('HGET', kPayloads, f.s) or ''
    call('HDEL', kPayloads, f.s)
  end
  if payload ~= '' then call('SET', k .. xPayload, payload) end
  if f.log ~= '' then call('XADD', k .. xLog, '*', 'r', f.log) end -- one entry: a cursor counts the records in it
  if f.due > 0 then
    call('ZADD', k .. xSegments, f.due, '0:' .. f.total)
    if f.limit < f.total then call('ZADD', k .. xByIndex, 0, '0:' .. f.total) end
  end
  call('HDEL', kSmall, f.s)
  call('SADD', t.k .. xRuns, f.s)
  t.small = t.small - 1
  if f.spanned then f.spanned, t.nready = false, t.nready + 1 end
  f.small, f.dirty, f.expires = false, true, f.complete
end

-- join puts a run that is ready for the first time into the last span of its tenant, or into a new
-- one.
local function join(t, no, prio, score)
  local s = t.open
  if s and s.b == no and s.score == score and s.prio == prio then
    s.b = no + 1
    return
  end
  if s then closespan(t) end
  s = { a = no, b = no + 1, prio = prio, score = score }
  local m = t.tail
  if tonumber(sub(m, 18)) == no and 10 - tonumber(sub(m, 1, 2)) == prio then
    local z = call('ZSCORE', t.k .. xReady, m)
    if z and tonumber(z) == score then
      s.a = tonumber(sub(m, 3, 16))
      t.zrem[#t.zrem + 1] = m
    end
  end
  t.open = s
end

local function spanname(prio, a, b) return format('%02d%014d:%d', 10 - prio, a, b) end

function closespan(t)
  local s, z = t.open, t.zadd
  t.tail, t.open = spanname(s.prio, s.a, s.b), false
  z[#z + 1] = format('%d', s.score)
  z[#z + 1] = t.tail
end

-- flushsmall notes what a small run has become; flushsmalls writes all of them.
function flushsmall(f)
  if not f.dirty and not f.odirty then return end
  local t = f.t
  if f.rec then
    f.log = f.log .. concat(f.rec)
    f.rec = false
    if #f.log > MAXLOG then
      grow(f)
      return flushrun(f)
    end
  end
  if f.odirty then
    f.outs = char(unpack(f.o))
    if not f.complete and ended(f) then
      f.complete = true
      if f.phase < STOPPED then f.phase = FINISHED elseif f.phase == CANCELLED then call('SREM', kCancelled, f.s) end
      smalldone[#smalldone + 1] = class(f.cfg).forget
      smalldone[#smalldone + 1] = f.s
    end
  end
  if f.ready then
    if f.spanned then -- stays where it is
    elseif f.young and f.cur == 0 and f.inf == 0 then
      -- One that was ready before may still be in a span, and one with leases is none of a span's:
      -- both would be leased twice.
      f.spanned, f.joins = true, true
      t.joins = t.joins or { lo = f.no, hi = f.no, n = 0 }
      t.joins.lo, t.joins.hi, t.joins.n = min(t.joins.lo, f.no), max(t.joins.hi, f.no), t.joins.n + 1
    else
      local r, z = rank(f.inf, f.weight, f.tag), t.zadd
      if not f.inz or r ~= f.rank0 then
        z[#z + 1] = format('%d', r)
        z[#z + 1] = level(f) .. format('%014d', f.no)
      end
    end
  elseif f.inz then
    t.zrem[#t.zrem + 1] = level(f) .. format('%014d', f.no)
  end
  smallset[#smallset + 1] = f.s
  smallset[#smallset + 1] = encode(f)
end

local function joinall(t)
  local j = t.joins
  local function one(f) join(t, f.no, f.prio, rank(0, f.weight, f.tag)) end
  if j.hi - j.lo < 4 * j.n then
    for no = j.lo, j.hi do
      local f = R[no]
      if f and f.joins and f.t == t then one(f) end
    end
    return
  end
  local list = {}
  for _, f in pairs(R) do
    if f and f.joins and f.t == t then list[#list + 1] = f end
  end
  table.sort(list, function(a, b) return a.no < b.no end)
  for _, f in ipairs(list) do one(f) end
end

-- flushspans writes what a turn has left of the spans that it took runs from, and the new ones.
function flushspans(t)
  if t.spent then
    local z, gone, left = t.k .. xReady, {}, {}
    for _, s in ipairs(t.spent) do
      gone[#gone + 1] = s.m
      if s.a < s.b then
        left[#left + 1] = format('%d', s.score)
        left[#left + 1] = spanname(s.prio, s.a, s.b)
      end
      if t.tail == s.m then t.tail = s.a < s.b and left[#left] or '' end
    end
    call('ZREM', z, unpack(gone))
    if #left > 0 then call('ZADD', z, unpack(left)) end
  end
  if t.joins then joinall(t) end
  if t.open then closespan(t) end
end

local function each(list, command)
  for i = 1, #list, 1000 do command(unpack(list, i, min(i + 999, #list))) end
end

function flushsmalls()
  each(smallset, function(...) call('HSET', kSmall, ...) end)
  each(smalldone, function(...) call('ZADD', kDone, ...) end)
  each(duedel, function(...) call('ZREM', kDue, ...) end)
end
