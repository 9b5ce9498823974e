-- turn.lua: acknowledge what is finished and lease what fits, in one step.
-- Needs: base, locks, jobs, trust.
-- Does: refuses a session that is gone; reaps at most 32 jobs of expired sessions; applies the acks
-- whose token and session fit; sweeps at most 64 entries of stopped runs; activates at most 64
-- due entries; leases at most WANT, in the order of queue.Rank at both levels.
-- KEYS: all fixed keys (keys.go).
-- ARGV: session, want, session TTL µs, highest token that the caller was given, acks: '' or msgpack
--   of {run ids …} and {flat: number of the run id (0 none), index as text, token, kind + 8 ×
--   outcome, 0 or {after µs, keep locks, detail, state, event, cleanup 1 | 0} …}.
-- Returns: 'GONE', or msgpack: clock, next due by it or -1, more, run ids, leases flat (number of
--   the run id, index, host, attempt, …), first token, extras flat (lease from 1, data, state, why
--   its run has ended or '', …), stale ack numbers, jobs to stop flat (id, index, …), 1 when leases
--   may be forgotten.
-- Bounds: 256 acks, 256 leases, want + 64 jobs that meet a lock, 1024 runs of spans that are not
--   ready any more.

local sid, want, ttl, seen = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local live = alive(sid)
if live then call('ZADD', kSessions, age + ttl, sid) end
local doubt = distrusted(seen) -- a session that is forgotten shows forgotten leases, too
if not live then return 'GONE' end

local reaped = 0
if tonumber(call('ZRANGE', kSessions, 0, 0, 'WITHSCORES')[2]) <= age then reaped = reap(32) end

local mine = session(sid)

-- ackrun gives the runs of acks. Of a small run of one host it may give no more than {no, its
-- record}, see ackone.
local function ackruns(ids)
  local nos, runs = call('HMGET', kIDs, unpack(ids)), {}
  for i, no in ipairs(nos) do nos[i] = no or '-' end
  for i, text in ipairs(call('HMGET', kSmall, unpack(nos))) do
    local no = tonumber(nos[i])
    if text and R[no] == nil then
      runs[i] = { no = no, pre = nos[i] .. '/', text = text, id = ids[i] }
    else
      runs[i] = no and run(no)
    end
  end
  return runs
end

-- ackone ends the one job of a small run, with an outcome that changes nothing but its run, without
-- a table for the run. False where it is not so simple.
local function ackone(x, l, oc, detail)
  if oc > 3 or l.attempt > 1 or l.ha ~= '' or #detail > MAXLOG - 17 then return false end
  local flags, limit, cur, tag, weight, served, readyat, inf, due, outs, log, reason, tno, total, cfg, fix = unpk(x.text)
  if total > 1 or flags % READY >= STOPPED then return false end
  local t, del, d = tenant(tno), mine.del, max(age - l.since, 0)
  t.inf, del[#del + 1] = t.inf - 1, l.key
  t.tag = t.tag + d / t.weight
  log = spack('>I4I4BI2I2I4', 0, 1, oc, 1, 0, #detail)
  if detail ~= '' then log = log .. detail end
  local s, n = sub(x.pre, 1, -2), #smallset
  smallset[n + 1] = s
  smallset[n + 2] = pack(FINISHED + BORN + COMPLETE, limit, 1, tag + d / weight, weight, served + d, readyat, 0, 0,
    oc == 1 and '\1\0\0\0\0\0\0\0' or oc == 2 and '\0\1\0\0\0\0\0\0' or '\0\0\1\0\0\0\0\0', log, reason, tno, 1, cfg, fix)
  local m = #smalldone
  smalldone[m + 1], smalldone[m + 2] = class(cfg).forget, s
  news[#news + 1] = x.id
  if getlock(l.lock) == l.key then
    setlock(l.lock, false)
    handoff(l.lock)
  end
  return true
end

-- Acks: all leases are looked up first, and then their locks, each in one call.
local stale, acked = {}, 0
if ARGV[5] ~= '' then
  local ids, list = unpk(ARGV[5])
  local keys, runs, leases, n = {}, ackruns(ids), {}, #list / 5
  for i = 1, n do
    local f = runs[list[5 * i - 4]]
    keys[i] = f and f.pre .. list[5 * i - 3] or '-'
  end
  local names = {}
  for i, v in ipairs(call('HMGET', mine.k, unpack(keys))) do
    local l = leaseof(v)
    if l and l.token == list[5 * i - 2] then
      l.key, l.s, l.lock = keys[i], mine, hostlock(l.host)
      leases[i] = l
      names[#names + 1] = l.lock
    end
  end
  if #names > 0 then
    for i, v in ipairs(call('HMGET', kLocks, unpack(names))) do
      if lk[names[i]] == nil then lk[names[i]] = v end
    end
  end
  local used = {}
  for i = 1, n do
    local l, key, code, rest = leases[i], keys[i], list[5 * i - 1], list[5 * i]
    if l and not used[key] then
      used[key] = true
      local kind = code % 8
      local f, idx, oc = runs[list[5 * i - 4]], tonumber(list[5 * i - 3]), (code - kind) / 8
      local simple = f.text and kind == DONE and ackone(f, l, oc, rest ~= 0 and rest[3] or '')
      if f.text and not simple then
        f = R[f.no] or smallrun(f.no, f.text)
        runs[list[5 * i - 4]] = f
      end
      if simple then -- done
      elseif rest == 0 then
        ack(f, idx, l, kind, oc, 0, false, '', '', '', 0)
      else
        ack(f, idx, l, kind, oc, rest[1], rest[2], rest[3], rest[4], rest[5], rest[6])
      end
    else
      stale[#stale + 1] = i
    end
  end
  acked = n
end

local more = false
if not activate(64) then more = true end
if call('EXISTS', kSweep) == 1 and not sweepsome(64) then more = true end

local nleases = 0
if doubt then want = 0 end

-- Lease. A level is a heap of what this script has loaded, and pages of the stored order behind it.
local function push(h, o)
  local i, r, ord = #h + 1, o.rank, o.ord
  o.heaped, o.entered = true, true
  while i > 1 do
    local p = floor(i / 2)
    local x = h[p]
    if x.rank < r or (x.rank == r and x.ord < ord) then break end
    h[i] = x
    i = p
  end
  h[i] = o
end

-- settle puts o, which comes from the place i of h or behind it, where it belongs at or below i.
local function settle(h, i, o)
  local n, r, ord = #h, o.rank, o.ord
  while true do
    local c = 2 * i
    if c > n then break end
    local x, y = h[c], h[c + 1]
    if y and (y.rank < x.rank or (y.rank == x.rank and y.ord < x.ord)) then c, x = c + 1, y end
    if r < x.rank or (r == x.rank and ord < x.ord) then break end
    h[i] = x
    i = c
  end
  h[i] = o
end

-- replace moves o, the first of h until lately, to where its rank belongs now, or off h.
local function replace(h, o, stays)
  local i, n = 1, #h
  while h[i] ~= o do i = i + 1 end -- others may have come before it meanwhile, a few
  if not stays then
    o.heaped = false
    local last = h[n]
    h[n] = nil
    if last == o then return end
    while i > 1 do -- what was above goes down one, for last can be lower than that
      local p = floor(i / 2)
      h[i] = h[p]
      i = p
    end
    o = last
  end
  settle(h, i, o)
end

-- gone ends targets whose list is missing: nothing can run them.
local function gone(f, idx, count)
  record(f, idx, count, LOST, 0, 'the target list is gone from Redis', '')
  threshold(f, LOST, idx)
end

-- candidates reads the next n candidates of f, and adds the names of locks that are not known to
-- names.
local function candidates(f, n, names)
  local c = {}
  if f.nq > 0 then
    if f.qdel then
      call('ZREM', f.k .. xQueue, unpack(f.qdel))
      f.qdel = nil
    end
    local queued = call('ZRANGE', f.k .. xQueue, 0, n - 1)
    if #queued == 0 then f.nq = 0 end -- the set is gone: the range continues
    for _, m in ipairs(queued) do
      local idx = tonumber(m)
      local host, ha, group, data, big = target(f, idx)
      c[#c + 1] = { idx, host, ha, group, data, big, false, host and hostlock(host) }
    end
  end
  if #c == 0 then
    local idx, last = f.cur, min(f.cend, f.limit, f.cur + n)
    local p = f.coff
    while idx < last do
      local s, first
      if p < 0 then s, p, first = offset(f, idx) else s, first = chunk(f, floor(idx / f.chunksize)) end
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
      local host, ha, group, data, big, q = decode(s, p, first)
      idx = idx + 1
      p = idx % f.chunksize == 0 and 1 or q
      c[#c + 1] = { idx - 1, host, ha, group, data, big, p, hostlock(host) }
    end
  end
  for _, x in ipairs(c) do
    if x[8] and lk[x[8]] == nil then names[#names + 1] = x[8] end
  end
  f.cands, f.ci = c, 1
end

local function fetchlocks(names)
  if #names == 0 then return end
  for i, v in ipairs(call('HMGET', kLocks, unpack(names))) do lk[names[i]] = v end
end

-- readahead reads the runs of a page that a turn is about to lease from, with a candidate each and
-- all locks in one call.
local function readahead(page)
  local names, n = {}, want - nleases
  for i = 1, min(#page, 2 * n), 2 do
    local m = page[i]
    local f = #m == 16 and run(tonumber(m) % RUNS)
    if f and f.ready and not f.cands and (f.nq > 0 or f.cur < f.cend) then candidates(f, 1, names) end
  end
  fetchlocks(names)
end

local function best(level)
  while true do
    local page, i = level.page, level.i
    if not page[i] and not level.last then
      local from = level.from
      page = call('ZRANGE', level.k, from, from + level.size - 1, 'WITHSCORES')
      level.page, level.i, level.from, level.last = page, 1, from + level.size, #page < 2 * level.size
      level.size, i = min(level.size * 2, 64), 1
      if level.load == run then readahead(page) end
    end
    local m, top = page[i], level.h[1]
    if not m then return top end
    local ord, score = tonumber(#m > 16 and sub(m, 1, 16) or m), tonumber(page[i + 1])
    local no = ord % RUNS
    local o = level.seen[no]
    if #m > 16 then
      if top and (top.rank < score or (top.rank == score and top.ord < ord)) then return top end
      level.i = i + 2
      push(level.h, { span = true, m = m, a = no, b = tonumber(sub(m, 18)), prio = 10 - floor(ord / RUNS), score = score, rank = score, ord = ord, size = 16, loaded = no, cut = false, runs = {} })
    elseif o == false or (o and o.entered) then
      level.i = i + 2
    elseif top and (top.rank < score or (top.rank == score and top.ord < ord)) then
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

local tenants = { k = kReady, h = {}, page = {}, i = 1, from = 0, size = 4, seen = T, load = tenant }

-- spanload reads the next runs of a span, and their locks. A run of one host has no table of its
-- own here, see takeone.
local function spanload(span)
  local nos, names, from = {}, {}, span.a
  local last = min(span.b, from + min(want - nleases, span.size)) - 1
  for no = from, last do nos[#nos + 1] = no .. '' end
  for i, text in ipairs(call('HMGET', kSmall, unpack(nos))) do
    local no = from + i - 1
    if R[no] == nil and text then
      local flags, limit, cur, tag, weight, served, readyat, inf, due, outs, log, reason, tno, total, cfg, fix = unpk(text)
      if flags % COMPLETE >= SPANNED then
        local id, targets = unpk(fix)
        local host, ha, group, data, big, q = decode(targets, 1, '')
        local lock = hostlock(host)
        if lk[lock] == nil then names[#names + 1] = lock end
        if total == 1 and (ha == '' or not class(cfg).__index.disruptive) then
          span.runs[no] = { nos[i], text, lock, host, data, id, limit, tag, weight, readyat, tno, cfg, fix }
        else
          smallrun(no, text).cands = { { 0, host, ha, group, data, big, q, lock } }
          R[no].ci = 1
        end
      end
    end
  end
  fetchlocks(names)
  span.loaded, span.size = last + 1, span.size * 2
end

local passes = 1024 -- runs of spans that this turn may still pass over

-- spanhead moves a span to its next run that is ready. It returns that, or what spanload has of it;
-- nil where there is none left, or none that this turn may still pass to.
local function spanhead(span)
  while span.a < span.b and passes > 0 do
    if span.a >= span.loaded then spanload(span) end
    local f, x = R[span.a], span.runs[span.a]
    if f == nil and x then
      if not lk[x[3]] then return nil, x end
      return smallrun(span.a, x[2])
    end
    if f and f.spanned then return f end
    span.a, passes = span.a + 1, passes - 1
  end
end

local function flows(t)
  local l = t.level
  if not l then
    l = { k = t.k .. xReady, h = {}, page = {}, i = 1, from = 0, size = 4, seen = R, load = run }
    t.level = l
  end
  return l
end

function onready(f)
  local t = f.t
  if not f.heaped then
    f.rank = rank(f.inf, f.weight, f.tag)
    push(flows(t).h, f)
  end
  if not t.heaped then
    t.rank = rank(t.inf, t.weight, t.tag)
    push(tenants.h, t)
  end
end

local leases, extras, ids, idof = {}, {}, {}, {}
if want > 0 then seq = max(seq, now) end -- so that a token of a queue that was set back is none that it gave before
local first = seq + 1

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

-- grant takes the lock of the host, and writes a lease into the session and the answer; entry is
-- the lease.
local function grant(t, tag, no, id, idx, key, lock, host, attempt, data, state, over, entry)
  lk[lock], lkdirty[lock] = key, true
  t.inf = t.inf + 1
  vt, t.v = t.tag, tag
  local add = mine.add
  local z = #add
  add[z + 1], add[z + 2] = key, entry
  local ref = idof[no]
  if not ref then
    ref = #ids + 1
    ids[ref], idof[no] = id, ref
  end
  z = 4 * nleases
  leases[z + 1], leases[z + 2], leases[z + 3], leases[z + 4] = ref, idx, host, attempt
  nleases = nleases + 1
  if data ~= '' or state ~= '' or over ~= '' then
    local e = #extras
    extras[e + 1], extras[e + 2], extras[e + 3], extras[e + 4] = nleases, data, state, over
  end
end

local function lease(f, x)
  local idx, host = x[1], x[2]
  local n, crashes, state, hasj = 0, 0, '', false
  if not x[7] then
    local j = call('HGET', f.k .. xJobs, idx)
    if j then
      n, crashes, state = unpk(j)
      hasj = true
    end
    if call('HDEL', f.k .. xHeirs, idx) == 0 then call('HDEL', f.k .. xOrder, idx) end
  end
  if f.disruptive and x[3] ~= '' then take(f, halock(x[3]), idx) end
  if f.pergroup > 0 and x[4] ~= '' then take(f, grouplock(f, x[4]), idx) end
  seq = seq + 1
  f.inf = f.inf + 1
  local ha, group, data, entry = f.disruptive and x[3] or '', f.pergroup > 0 and x[4] or '', x[5], nil
  if n == 0 and crashes == 0 and not hasj and ha == '' and group == '' then
    entry = pack(seq, age, host)
  else
    entry = pack(seq, age, host, n + 1, crashes, hasj, ha, group)
  end
  if x[6] then data = call('HGET', f.k .. xData, idx) or '' end
  grant(f.t, f.tag, f.no, f.id, idx, f.pre .. idx, x[8], host, n + 1, data, state, f.phase >= STOPPED and reasonof(f) or '', entry)
end

-- takeone leases the one job of a small run whose host is free.
local function takeone(t, no, x)
  seq = seq + 1
  grant(t, x[8], no, x[6], 0, x[1] .. '/0', x[3], x[4], 1, x[5], '', '', pack(seq, age, x[4]))
  local n = #smallset
  smallset[n + 1] = x[1]
  smallset[n + 2] = pack(BORN, x[7], 1, x[8], x[9], 0, x[10], 1, 0, '', '', '', x[11], 1, x[12], x[13])
end

-- inway is the lock that keeps candidate x of f from its lease; nil where none does.
local function inway(f, x)
  local idx = x[1]
  local v = getlock(x[8])
  if v and v ~= f.pre .. idx then
    return x[8]
  elseif f.disruptive and x[3] ~= '' and not isfree(f, halock(x[3]), idx) then
    return halock(x[3])
  elseif f.pergroup > 0 and x[4] ~= '' and not isfree(f, grouplock(f, x[4]), idx) then
    return grouplock(f, x[4])
  end
end

-- try takes the next candidate of f: leased, or blocked on the first lock that is held.
local function try(f)
  if not f.cands or not f.cands[f.ci] then
    local left = want - nleases
    f.ahead = min(left, max(1, floor(left / max(f.t.nready, 1)), 2 * (f.ahead or 0)))
    if f.maxif > 0 then f.ahead = max(1, min(f.ahead, f.maxif - f.inf)) end
    local names = {}
    candidates(f, f.ahead, names)
    fetchlocks(names)
  end
  local x = f.cands[f.ci]
  if not x then return touch(f) end
  consume(f, x)
  if not x[2] then
    append(f, 'jdel', x[1])
    gone(f, x[1], 1)
    return touch(f)
  end
  local held = inway(f, x)
  if held then park(f, x[1], held) else lease(f, x) end
  touch(f)
end

-- leaseclosing leases at most n jobs of runs that have ended, for their cleanup. They have no part
-- in the order of the others.
local function leaseclosing(n)
  if n < 1 then return end
  for _, key in ipairs(call('ZRANGEBYSCORE', kClosing, '-inf', now, 'LIMIT', 0, n)) do
    local no, idx = string.match(key, '^(%d+)/(%d+)$')
    local f = run(tonumber(no))
    idx = tonumber(idx)
    call('ZREM', kClosing, key)
    if f and cleanup(f, idx) == 2 then
      local host, ha, group, data, big = target(f, idx)
      local x = { idx, host, ha, group, data, big, false, host and hostlock(host) }
      local held = host and inway(f, x)
      if not host then
        append(f, 'jdel', idx)
        gone(f, idx, 1)
      elseif f.maxif > 0 and f.inf >= f.maxif then
        close(f, idx, 1000000)
      elseif held then
        park(f, idx, held)
      else
        local v, tv = vt, f.t.v
        lease(f, x)
        vt, f.t.v = v, tv
      end
      touch(f)
    end
  end
end

-- takespan takes the first run of a span, which is then ready by itself.
local function takespan(t, span)
  local from = span.a
  local f, x = spanhead(span)
  if not span.cut then
    span.cut, t.spent = true, t.spent or {}
    t.spent[#t.spent + 1] = span
  end
  if span.a > from and span.a < span.b then -- it passed over runs: one of another span, or of none, may come first now
    span.ord = span.ord - span.ord % RUNS + span.a
    return replace(t.level.h, span, true)
  end
  if f or x then
    span.a = span.a + 1
    span.ord = span.ord - span.ord % RUNS + span.a
  end
  if x then takeone(t, span.a - 1, x) end
  if f then
    f.spanned, t.nready = false, t.nready + 1
    try(f)
    if f.ready then onready(f) end
  end
  if span.a >= span.b then t.nready = t.nready - 1 end
  replace(t.level.h, span, span.a < span.b)
end

if want > 0 then
  leaseclosing(min(want, 16))
  phaseLease = true
  for _, f in pairs(R) do
    if f and f.ready and not f.spanned then onready(f) end
  end
  local steps = 2 * want + 64
  while nleases < want and steps > 0 and passes > 0 do
    local t = best(tenants)
    if not t then break end
    local f = best(flows(t))
    if f and f.span then
      takespan(t, f)
    elseif f then
      try(f)
      f.rank = rank(f.inf, f.weight, f.tag)
      replace(t.level.h, f, f.ready)
    else
      t.nready = 0
    end
    t.rank = rank(t.inf, t.weight, t.tag)
    replace(tenants.h, t, t.nready > 0)
    steps = steps - 1
  end
end

if tks == sid then tkat = 0 end
flush('tkat', tkat)
call('HINCRBY', kMeta, 'turns', 1)
if nleases == 0 and acked == 0 then call('HINCRBY', kMeta, 'empty', 1) end
if #stale > 0 then call('HINCRBY', kMeta, 'stale', #stale) end
if reaped > 0 then call('HINCRBY', kMeta, 'reaped', reaped) end

if call('EXISTS', kReady) == 1 or call('EXISTS', kSweep) == 1 then more = true end
local due = call('ZRANGE', kDue, 0, 0, 'WITHSCORES')[2]
due = due and tonumber(due) or -1
local closing = call('ZRANGE', kClosing, 0, 0, 'WITHSCORES')[2]
if closing and (due < 0 or tonumber(closing) < due) then due = tonumber(closing) end
if due >= 0 and due <= now then more = true end
if doubt then more = false end
return pack(wall, due < 0 and due or due - ahead, more and 1 or 0, ids, leases, first, extras, stale, stopping(sid), doubt and 1 or 0)
