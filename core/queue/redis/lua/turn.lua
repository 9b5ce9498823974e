-- turn.lua: acknowledge what is finished and lease what fits, in one step.
-- Needs: base, locks, jobs.
-- Does: refuses a session that is gone; reaps at most 32 jobs of expired sessions; applies the acks
-- whose token and session fit; sweeps at most 64 entries of stopped runs; activates at most 64
-- due entries; leases at most WANT, in the order of queue.Rank at both levels.
-- KEYS: all fixed keys (keys.go).
-- ARGV: session, want, session TTL µs, n, n run ids, then one packed ack each:
--   >I2 run (from 1) I4 index I7 token B kind B outcome I7 after µs B keep locks
--   I4 #detail I4 #state B #event, detail, state, event.
-- Returns: {now, next due or -1, more, run ids, leases flat (run, index, host, attempt, …), first token,
--   extras flat (lease from 1, data, state, …), stale ack numbers, jobs to stop flat (id, index, …)}; or {'GONE'}.
-- Bounds: 256 acks, 256 leases, want + 64 jobs that meet a lock.

local sid, want, ttl, nruns = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local deadline = call('ZSCORE', kSessions, sid)
if not deadline or tonumber(deadline) <= now then return { 'GONE' } end
call('ZADD', kSessions, now + ttl, sid)

local reaped = 0
if tonumber(call('ZRANGE', kSessions, 0, 0, 'WITHSCORES')[2]) <= now then reaped = reap(32) end

-- Acks: all leases are looked up first, one call for each run.
local stale, parsed, byrun = {}, {}, {}
if #ARGV > 4 then
  local nos = nruns > 0 and call('HMGET', kIDs, unpack(ARGV, 5, 4 + nruns)) or {}
  for i = 5 + nruns, #ARGV do
    local a = ARGV[i]
    local r, idx, token, kind, oc, after, keep, nd, ns, ne, p = sunpack('>I2I4I7BBI7BI4I4B', a)
    local x = { idx, token, kind, oc, after, keep == 1, sub(a, p, p + nd - 1), sub(a, p + nd, p + nd + ns - 1),
      sub(a, p + nd + ns, p + nd + ns + ne - 1), nos[r] and run(tonumber(nos[r])) }
    parsed[#parsed + 1] = x
    if x[10] then
      local g = byrun[r]
      if not g then
        g = { f = x[10] }
        byrun[r] = g
      end
      g[#g + 1] = idx .. ''
      x[11], x[12] = g, #g
    end
  end
  local names = {}
  for _, g in pairs(byrun) do
    local found = call('HMGET', g.f.k .. xLeases, unpack(g))
    for i, v in ipairs(found) do
      local l = leaseof(v)
      found[i] = l or false
      if l then
        l.is = g[i]
        names[#names + 1] = hostlock(l.host)
      end
    end
    g.leases, g.used = found, {}
  end
  if #names > 0 then
    for i, v in ipairs(call('HMGET', kLocks, unpack(names))) do
      if lk[names[i]] == nil then lk[names[i]] = v end
    end
  end
  for i, x in ipairs(parsed) do
    local f, g, idx = x[10], x[11], x[1]
    local l = g and not g.used[idx] and g.leases[x[12]]
    if l and l.token == x[2] and l.sid == sid then
      g.used[idx] = true
      ack(f, idx, l, x[3], x[4], x[5], x[6], x[7], x[8], x[9])
    else
      stale[#stale + 1] = i
    end
  end
end

local more = false
if not activate(64) then more = true end
if call('EXISTS', kSweep) == 1 and not sweepsome(64) then more = true end

-- Lease. A level is a heap of what this script has loaded, and pages of the stored order behind it.
local function less(a, b)
  if a.rank ~= b.rank then return a.rank < b.rank end
  return a.m < b.m
end

local function push(h, o)
  local i = #h + 1
  o.heaped, o.entered = true, true
  while i > 1 do
    local p = floor(i / 2)
    if not less(o, h[p]) then break end
    h[i] = h[p]
    i = p
  end
  h[i] = o
end

local function pop(h)
  local top, n = h[1], #h
  local o = h[n]
  h[n] = nil
  n = n - 1
  top.heaped = false
  if n == 0 then return top end
  local i = 1
  while true do
    local c = 2 * i
    if c > n then break end
    if c < n and less(h[c + 1], h[c]) then c = c + 1 end
    if not less(h[c], o) then break end
    h[i] = h[c]
    i = c
  end
  h[i] = o
  return top
end

local function best(level)
  while true do
    local page, i = level.page, level.i
    if not page[i] and not level.last then
      local from = level.from
      page = call('ZRANGE', level.k, from, from + level.size - 1, 'WITHSCORES')
      level.page, level.i, level.from, level.last = page, 1, from + level.size, #page < 2 * level.size
      level.size, i = min(level.size * 2, 64), 1
    end
    local m, top = page[i], level.h[1]
    if not m then return top end
    local no, score = tonumber(sub(m, level.skip)), tonumber(page[i + 1])
    local o = level.seen[no]
    if o == false or (o and o.entered) then
      level.i = i + 2
    elseif top and (top.rank < score or (top.rank == score and top.m < m)) then
      return top
    else
      level.i = i + 2
      o = level.load(no)
      if o and (o.ready or (o.nready and o.nready > 0)) then
        o.rank = rank(o.inf, o.weight, o.tag)
        push(level.h, o)
      end
    end
  end
end

local tenants = { k = kReady, h = {}, page = {}, i = 1, from = 0, size = 4, skip = 1, seen = T, load = tenant }

local function flows(t)
  local l = t.level
  if not l then
    l = { k = t.k .. xReady, h = {}, page = {}, i = 1, from = 0, size = 4, skip = 3, seen = R, load = run }
    t.level = l
  end
  return l
end

function onready(f)
  local t = f.t
  if not f.heaped and not f.out then
    f.rank = rank(f.inf, f.weight, f.tag)
    push(flows(t).h, f)
  end
  if not t.heaped and not t.out then
    t.rank = rank(t.inf, t.weight, t.tag)
    push(tenants.h, t)
  end
end

-- gone ends targets whose list is missing: nothing can run them.
local function gone(f, idx, count)
  record(f, idx, count, LOST, 0, 'the target list is gone from Redis', '')
  budget(f, LOST, idx)
end

-- prefetch reads the next n candidates of f and, in one call, their host locks.
local function prefetch(f, n)
  local c, names = {}, {}
  if f.nq > 0 then
    if f.qdel then
      call('ZREM', f.k .. xQueue, unpack(f.qdel))
      f.qdel = nil
    end
    for _, m in ipairs(call('ZRANGE', f.k .. xQueue, 0, n - 1)) do
      local idx = tonumber(m)
      local host, ha, group, data, big = target(f, idx)
      c[#c + 1] = { idx, host, ha, group, data, big, false }
    end
  end
  if #c == 0 then
    local idx, last = f.cur, min(f.cend, f.limit, f.cur + n)
    local p = f.coff
    while idx < last do
      local s
      if p < 0 then s, p = offset(f, idx) else s = chunk(f, floor(idx / f.chunksize)) end
      if p > #s then
        if #c == 0 then
          local stop = min(f.cend, (floor(idx / f.chunksize) + 1) * f.chunksize)
          f.cur, f.coff = stop, 1
          gone(f, idx, stop - idx)
          advance(f)
          touch(f)
        end
        break
      end
      local host, ha, group, data, big, q = decode(s, p)
      idx = idx + 1
      p = idx % f.chunksize == 0 and 1 or q
      c[#c + 1] = { idx - 1, host, ha, group, data, big, p }
    end
  end
  for _, x in ipairs(c) do
    if x[2] then
      x[8] = hostlock(x[2])
      if lk[x[8]] == nil then names[#names + 1] = x[8] end
    end
  end
  if #names > 0 then
    for i, v in ipairs(call('HMGET', kLocks, unpack(names))) do lk[names[i]] = v end
  end
  f.cands, f.ci = c, 1
end

local leases, extras, ids, idof, nleases = {}, {}, {}, {}, 0
local first = seq + 1
local mine = session(sid)
local PAD = string.rep('-', 65)

-- consume takes candidate x off the ready work of f.
local function consume(f, x)
  f.ci = f.ci + 1
  if x[7] then
    f.cur, f.coff = x[1] + 1, x[7]
    if f.cur >= f.cend then
      advance(f)
      if f.cur < f.cend then f.cands = nil end
    end
  else
    append(f, 'qdel', x[1])
    f.nq = f.nq - 1
  end
end

local function lease(f, x)
  local idx, t, host = x[1], f.t, x[2]
  local is = idx .. ''
  local key = f.pre .. is
  local n, crashes, state, hasj = 0, 0, '', false
  if not x[7] then
    local j = call('HGET', f.k .. xJobs, idx)
    if j then
      n, crashes, state = unpk(j)
      hasj = true
    end
    if call('HDEL', f.k .. xHeirs, idx) == 0 then call('HDEL', f.k .. xOrder, idx) end
  end
  lk[x[8]] = key
  lkdirty[x[8]] = true
  if f.disruptive and x[3] ~= '' then take(f, halock(x[3]), idx) end
  if f.pergroup > 0 and x[4] ~= '' then take(f, grouplock(f, x[4]), idx) end
  seq = seq + 1
  f.inf, t.inf = f.inf + 1, t.inf + 1
  append(f, 'add', is)
  -- Many leases must not be a listpack, which is scanned: PAD makes a value too long for one.
  append(f, 'add', pack(seq, sid, now, n + 1, crashes, hasj, host, f.disruptive and x[3] or '', f.pergroup > 0 and x[4] or '',
    f.inf > 16 and PAD or nil))
  t.add[#t.add + 1] = key
  mine.add[#mine.add + 1] = key
  vt, t.v = t.tag, f.tag
  local ref = idof[f.no]
  if not ref then
    ref = #ids + 1
    ids[ref], idof[f.no] = f.id, ref
  end
  local z = 4 * nleases
  leases[z + 1], leases[z + 2], leases[z + 3], leases[z + 4] = ref, idx, host, n + 1
  nleases = nleases + 1
  local data = x[5]
  if x[6] then data = call('HGET', f.k .. xData, idx) or '' end
  if data ~= '' or state ~= '' then
    local e = #extras
    extras[e + 1], extras[e + 2], extras[e + 3] = nleases, data, state
  end
end

-- try takes the next candidate of f: leased, or parked on the first lock that is held.
local function try(f)
  if not f.cands or not f.cands[f.ci] then
    local left = want - nleases
    f.ahead = min(left, max(1, floor(left / max(f.t.nready, 1)), 2 * (f.ahead or 0)))
    if f.maxif > 0 then f.ahead = max(1, min(f.ahead, f.maxif - f.inf)) end
    prefetch(f, f.ahead)
  end
  local x = f.cands[f.ci]
  if not x then return touch(f) end
  consume(f, x)
  if not x[2] then
    append(f, 'jdel', x[1])
    gone(f, x[1], 1)
    return touch(f)
  end
  local idx, held = x[1], nil
  local v = lk[x[8]]
  if v and v ~= f.pre .. idx then
    held = x[8]
  elseif f.disruptive and x[3] ~= '' and not isfree(f, halock(x[3]), idx) then
    held = halock(x[3])
  elseif f.pergroup > 0 and x[4] ~= '' and not isfree(f, grouplock(f, x[4]), idx) then
    held = grouplock(f, x[4])
  end
  if held then park(f, idx, held) else lease(f, x) end
  touch(f)
end

if want > 0 then
  phaseLease = true
  for _, f in pairs(R) do
    if f and f.ready then onready(f) end
  end
  local steps = 2 * want + 64
  while nleases < want and steps > 0 do
    local t = best(tenants)
    if not t then break end
    pop(tenants.h)
    t.out = true
    local f = best(flows(t))
    if f then
      pop(t.level.h)
      f.out = true
      try(f)
      f.out = false
      if f.ready then
        f.rank = rank(f.inf, f.weight, f.tag)
        push(t.level.h, f)
      end
    else
      t.nready = 0
    end
    t.out = false
    if t.nready > 0 then
      t.rank = rank(t.inf, t.weight, t.tag)
      push(tenants.h, t)
    end
    steps = steps - 1
  end
end

if tks == sid then tkat = 0 end
flush('tkat', tkat)
call('HINCRBY', kMeta, 'turns', 1)
if nleases == 0 and #parsed == 0 then call('HINCRBY', kMeta, 'empty', 1) end
if #stale > 0 then call('HINCRBY', kMeta, 'stale', #stale) end
if reaped > 0 then call('HINCRBY', kMeta, 'reaped', reaped) end

if call('EXISTS', kReady) == 1 or call('EXISTS', kSweep) == 1 then more = true end
local due = call('ZRANGE', kDue, 0, 0, 'WITHSCORES')[2]
due = due and tonumber(due) or -1
if due >= 0 and due <= now then more = true end
return { now, due, more and 1 or 0, ids, leases, first, extras, stale, stopping(sid) }
