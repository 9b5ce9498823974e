-- base.lua: loading and writing back, shared by every script (prepended by scripts.go).
-- Needs: the locals for key names that keys.go generates. KEYS are the pool's fixed keys and
-- prefixes with the same hash tag; keys of runs, tenants, sessions and documents are prefix ..
-- number, id or escaped name.
-- Does: reads the clock once, as three times (see DESIGN.md, Time); caches runs and tenants in
-- tables; flush() writes each touched one once. Bounds: nothing here loops over more than its
-- caller touched.

local ACTIVE, PAUSED, STOPPED, CANCELLED, FINISHED = 0, 1, 2, 3, 4
local FAILED, UNREACHABLE, LOST, CANCEL = 5, 6, 7, 8 -- outcome codes: 1 + position in core.Outcomes()
local SHIFT, TAGUNIT, MAXSHARE = 4294967296, 10000, 1048575 -- queue.Rank; the clock counts µs
local EXACT, OCTAVE = 2147483648, 67108864 -- tagPlace in rank.go
local PAD = string.rep('-', 65) -- a value too long for a listpack: with it under '' a hash is never scanned
local SHARED = 16 -- flag of a packed target, see pack.go
local RUNS = 1e14 -- more than there are run and tenant numbers
local NEWS_PAGE, NEWS_KEPT = 64, 8192 -- runs of an entry, entries of the pool's log of hints
local KEEP_WAKE = 1200000 -- µs: backstop of Wait with its jitter; farther times need no timekeeper

do
  local meta, t = call('HMGET', kMeta, 'clock', 'seq', 'bseq', 'vt', 'tkat', 'tks', 'ahead', 'age', 'format'), call('TIME')
  if not meta[9] then return UNFORMATTED end -- nothing was done: see format.lua
  seq, bseq, vt = tonumber(meta[2] or 0), tonumber(meta[3] or 0), tonumber(meta[4] or 0)
  tkat, tks = tonumber(meta[5] or 0), meta[6]
  wall = t[1] * 1000000 + t[2]
  local d = wall - tonumber(meta[1] or wall)
  ahead = tonumber(meta[7] or 0) + max(-d, 0)
  now = wall + ahead
  age = tonumber(meta[8] or now)
  -- A leap must not end sessions: a call counts at most LEASE_STEP, and nothing where nobody called
  -- for as long as a session lives, which a node that lives never lets happen.
  if d > 0 and d <= LEASE_TTL then age = age + min(d, LEASE_STEP) end
end
-- tick writes the times, with other fields of meta.
local function tick(...) call('HSET', kMeta, 'clock', wall, 'ahead', ahead, 'age', age, ...) end
local function alive(sid)
  local z = call('ZSCORE', kSessions, sid)
  return z and tonumber(z) > age
end
waiters = call('ZCARD', kWait)


local function tenant(no)
  local t = T[no]
  if t then return t end
  local k = pTenant .. no
  local v = call('HMGET', k, 'w', 's', 'v', 'i', 'c', 'e')
  local m = format('%014d', no) -- the order of first submission breaks ties
  t = { no = no, k = k, m = m, ord = no, weight = tonumber(v[1] or 1), tag = tonumber(v[2] or 0), v = tonumber(v[3] or 0), inf = tonumber(v[4] or 0),
    nready = call('ZCARD', k .. xReady), wasready = false, zadd = {}, zrem = {}, level = false, heaped = false, entered = false, rank = 0,
    small = tonumber(v[5] or 0), tail = v[6] or '', open = false, joins = false, spent = false, weighed = false, over = false }
  t.wasready = t.nready > 0
  T[no] = t
  return t
end

-- tenantof is the tenant of a name, made where there is none.
local function tenantof(name)
  local no = call('HGET', kTenants, name)
  if not no then
    no = call('HINCRBY', kMeta, 'tenant', 1)
    call('HSET', kTenants, name, no)
    call('HSET', pTenant .. no, 'n', name)
  end
  return tenant(tonumber(no))
end

-- canlease: whether the run's rules let it lease at all, whatever work it has.
local function canlease(f)
  return f.phase == ACTIVE and (f.maxif == 0 or f.inf < f.maxif)
end

local function rank(inf, weight, tag)
  local share = 64 * inf / (weight < 1 and 1 or weight)
  share = share - share % 1
  if share > MAXSHARE then share = MAXSHARE end
  tag = tag / TAGUNIT
  tag = tag - tag % 1
  if tag < 0 then
    tag = 0
  elseif tag >= EXACT then
    local m, e = math.frexp(tag)
    m = (2 * m - 1) * OCTAVE
    tag = EXACT + (e - 32) * OCTAVE + (m - m % 1)
  end
  return share * SHIFT + tag
end

local function run(no)
  local f = R[no]
  if f ~= nil then return f end
  local k = pRun .. no
  local v = call('HMGET', k, 'c', 's', 'o')
  if not v[1] or not v[2] then
    local text = call('HGET', kSmall, no)
    if text then return smallrun(no, text) end
    R[no] = false
    return false
  end
  local id, tno, prio, total, maxif, pergroup, stopafter, stopunreach, disruptive, hold, maxcrash, bint, bmax, bjit, chunksize, keep, m, pre = unpk(v[1])
  local phase, complete, limit, cur, cend, coff, tag, weight, ready, born, served, readyat, inf, nq = unpk(v[2])
  -- All fields that are set later are named here, so that the table has its size from the start.
  f = { no = no, k = k, pre = pre, outs = v[3], o = false, m = m, ord = (10 - prio) * RUNS + no, id = id, tno = tno, prio = prio, total = total, maxif = maxif, pergroup = pergroup,
    stopafter = stopafter, stopunreach = stopunreach, disruptive = disruptive, hold = hold, maxcrash = maxcrash, bint = bint, bmax = bmax,
    bjit = bjit, chunksize = chunksize, keep = keep, phase = phase, complete = complete, limit = limit, cur = cur, cend = cend, coff = coff,
    tag = tag, weight = weight, ready = ready, born = born, served = served, readyat = readyat, inf = inf, nq = nq,
    inz = ready, can = phase == ACTIVE and (maxif == 0 or inf < maxif), rank0 = rank(inf, weight, tag), rank = 0, t = tenant(tno),
    dirty = false, odirty = false, rec = false, tell = false, cands = false, ci = 0, cno = -1, cstr = '', chost = '', heaped = false, entered = false, ahead = 0 }
  R[no] = f
  return f
end

-- reasonof is read where it is needed: of a run that continues there is none.
local function reasonof(f)
  if not f.reason then f.reason = call('HGET', f.k, 'r') or '' end
  return f.reason
end

local function outcomes(f)
  local o = f.o
  if not o then
    local outs = f.outs
    if not f.small then o = { unpk(outs) } elseif outs == '' then o = { 0, 0, 0, 0, 0, 0, 0, 0 } else o = { byte(outs, 1, 8) } end
    f.o = o
  end
  return o
end

-- haswork: a job that is neither leased, blocked nor waiting for a time.
local function haswork(f)
  return f.nq > 0 or (f.cur < f.cend and f.cur < f.limit)
end

-- touch: keeps readiness, the heirs of locks and the tags right after any change to f.
local function touch(f)
  f.dirty = true
  local can = f.phase == ACTIVE and (f.maxif == 0 or f.inf < f.maxif) -- canlease
  if can ~= f.can then
    f.can = can
    if not can and not f.small then strip(f) end
  end
  local ready = can and (f.nq > 0 or (f.cur < f.cend and f.cur < f.limit)) -- haswork
  if ready == f.ready then return end
  f.ready = ready
  local t = f.t
  if ready then
    if f.born then f.tag = max(f.tag, t.v) else f.tag = t.v - f.prio * 1000000 end -- queue.HeadStart, in µs
    f.born, f.readyat = true, age
    t.nready = t.nready + 1
    if t.nready == 1 then t.tag = max(t.tag, vt) end
    if phaseLease then onready(f) end
  elseif f.spanned then
    f.spanned = false
  else
    t.nready = t.nready - 1
  end
end

local function range(m)
  local a, b = string.match(m, '^(%d+):(%d+)$')
  return tonumber(a), tonumber(b)
end

-- advance: the lowest ready range becomes the current one.
local function advance(f)
  while f.cur >= f.cend and not f.small do
    local m = call('ZRANGE', f.k .. xRanges, 0, 0)[1]
    if not m then return end
    call('ZREM', f.k .. xRanges, m)
    f.coff = -1
    f.cur, f.cend = range(m)
  end
end

-- addrange makes the fresh targets from a to b-1 ready.
local function addrange(f, a, b)
  if f.cur >= f.cend then
    f.cur, f.cend, f.coff = a, b, -1
  elseif a < f.cur then
    call('ZADD', f.k .. xRanges, f.cur, f.cur .. ':' .. f.cend)
    f.cur, f.cend, f.coff = a, b, -1
  elseif a == f.cend then
    f.cend = b
  else
    call('ZADD', f.k .. xRanges, a, a .. ':' .. b)
  end
  f.fresh = nil
end

-- again puts one job among the ready ones; what was taken off before in this script must not go
-- with it.
local function again(f, idx)
  grow(f)
  if f.qdel then
    call('ZREM', f.k .. xQueue, unpack(f.qdel))
    f.qdel = nil
  end
  call('ZADD', f.k .. xQueue, idx, idx)
  f.nq, f.cands = f.nq + 1, nil
end

-- decode reads the target at byte p of a chunk whose first host is first: host, HA group, group,
-- data, data kept apart, next byte.
local function decode(s, p, first)
  local flags, n = byte(s, p, p + 1)
  local q, host = p + 2, nil
  if flags >= SHARED then
    local head, tail = n, 0
    flags = flags - SHARED
    tail, n = byte(s, q, q + 1)
    q = q + 2 + n
    host = sub(first, 1, head) .. sub(s, q - n, q - 1)
    if tail > 0 then host = host .. sub(first, -tail) end
  else
    q = q + n
    host = sub(s, q - n, q - 1)
  end
  if flags == 0 then return host, '', '', '', false, q end
  local ha, group, data = '', '', ''
  if flags % 2 == 1 then
    n = byte(s, q)
    ha = sub(s, q + 1, q + n)
    q = q + 1 + n
  end
  if floor(flags / 2) % 2 == 1 then
    n = byte(s, q)
    group = sub(s, q + 1, q + n)
    q = q + 1 + n
  end
  if floor(flags / 4) % 2 == 1 then
    local h, l = byte(s, q, q + 1)
    data = sub(s, q + 2, q + 1 + h * 256 + l)
    q = q + 2 + h * 256 + l
  end
  return host, ha, group, data, flags >= 8, q
end

-- chunk no of f, and its first host, which the others are written by.
local function chunk(f, no)
  if f.cno ~= no then
    local s = call('HGET', f.k .. xTargets, no .. '') or ''
    f.cstr, f.cno = s, no
    f.chost = s ~= '' and sub(s, 3, 2 + byte(s, 2)) or ''
  end
  return f.cstr, f.chost
end

-- offset: where target idx starts in its chunk; reads at most a chunk.
local function offset(f, idx)
  local s, first = chunk(f, floor(idx / f.chunksize))
  local p = 1
  for _ = 1, idx % f.chunksize do
    if p > #s then break end
    p = select(6, decode(s, p, first))
  end
  return s, p, first
end

-- target is decode by index; host is nil where the list is gone from Redis.
local function target(f, idx)
  local s, p, first = offset(f, idx)
  if p > #s then return nil, '', '', '', false, p end
  return decode(s, p, first)
end

-- released: how many of the targets from a to b-1 are.
local function released(f, a, b) return max(0, min(b, f.limit) - a) end

-- defer counts n more released targets, or fewer, of segments that are not due.
local function defer(f, n)
  if n ~= 0 then call('HINCRBY', f.k, 'l', n) end
end

local function jobstate(f, idx) -- attempts made, crashes, state, event, keeps locks, token and number of the last save, or 0 and the node that crashed with it; cleanup
  local v = not f.small and call('HGET', f.k .. xJobs, idx)
  if v then return unpk(v) end
  return 0, 0, '', '', false
end

-- cleanup: 1 of a job that is leased once more if its run ends; 2 of one whose run has ended, and
-- which is leased for nothing else.
local function cleanup(f, idx)
  return select(8, jobstate(f, idx)) or 0
end

-- closekey is a job's name in kClosing: those that are due at one time come by run and index.
local function closekey(f, idx) return format('%014d/%08d', f.no, idx) end

-- close makes a job of a run that has ended due for its cleanup, in so many µs.
local function close(f, idx, after) call('ZADD', kClosing, now + after, closekey(f, idx)) end

-- record adds one outcome of count jobs from idx on to the run's log and counts it.
local function record(f, idx, count, oc, attempt, reason, detail)
  local o = outcomes(f)
  o[oc] = o[oc] + count
  f.odirty = true
  local r = f.rec
  if not r then
    r = {}
    f.rec = r
  end
  local head = spack('>I4I4BI2I2I4', idx, count, oc, attempt, #reason, #detail)
  if reason ~= '' or detail ~= '' then head = head .. reason .. detail end
  r[#r + 1] = head
end

-- stop ends what is not leased, later and bounded (sweep); only cancel overrules stop.
local function stop(f, phase, reason)
  if f.complete or phase <= f.phase then return end
  f.phase, f.reason, f.rdirty, f.tell = phase, reason, true, true
  if f.due ~= 0 then call('ZREM', kDue, f.no) end
  if f.small then
    if f.cur < f.total then record(f, f.cur, f.total - f.cur, CANCEL, 0, reason, '') end
    f.cur, f.cend, f.due = f.total, f.total, 0
  else
    call('ZADD', kSweep, f.no, f.no)
  end
  if phase == CANCELLED and f.inf > 0 then call('SADD', kCancelled, f.no) end
  touch(f)
end

local function ended(f)
  local o = outcomes(f)
  return o[1] + o[2] + o[3] + o[4] + o[5] + o[6] + o[7] + o[8] >= f.total
end

local function threshold(f, oc, idx)
  local o = outcomes(f)
  if oc == LOST then return stop(f, STOPPED, 'job ' .. f.id .. '/' .. idx .. ' ended as lost' .. HOST_LOST) end
  local bad = o[4] + o[5] + o[7]
  if f.stopafter > 0 and bad >= f.stopafter and (oc == 4 or oc == 5) then
    stop(f, STOPPED, 'the failure threshold is reached: ' .. bad .. ' failed, stop_after is ' .. f.stopafter .. THRESHOLD_REACHED)
  elseif f.stopunreach > 0 and oc == UNREACHABLE and o[UNREACHABLE] >= f.stopunreach then
    stop(f, STOPPED, 'the failure threshold is reached: ' .. o[UNREACHABLE] .. ' unreachable, stop_unreachable is ' .. f.stopunreach .. THRESHOLD_REACHED)
  end
end

local function expire(f, ms)
  if f.small then return end
  for _, x in ipairs(RUNKEYS) do
    if ms then call('PEXPIRE', f.k .. x, ms) else call('PERSIST', f.k .. x) end
  end
end

-- duehead keeps the run's entry in the pool's due set right: its earliest timed thing.
local function duehead(f)
  if f.small then
    if f.due > 0 and f.phase < STOPPED then call('ZADD', kDue, f.due + ahead, f.no) else call('ZREM', kDue, f.no) end
    return
  end
  local at
  for _, x in ipairs({ xSegments, xWaiting, xSuspended }) do
    local v = call('ZRANGE', f.k .. x, 0, 0, 'WITHSCORES')
    if v[1] and v[2] ~= 'inf' then
      local d = tonumber(v[2])
      if x == xSegments then d = d + ahead end -- a time of day
      if not at or d < at then at = d end
    end
  end
  if at and f.phase < STOPPED then
    -- What is overdue still goes behind the runs that were due before now: no run's backlog delays
    -- another's time.
    call('ZADD', kDue, f.overdue and max(at, now) or at, f.no)
  else
    call('ZREM', kDue, f.no)
  end
end

function flushrun(f)
  local k, t = f.k, f.t
  if f.rec or f.tell then news[#news + 1], f.tell = f.id, false end
  if f.small then return flushsmall(f) end
  if f.rec then call('XADD', k .. xLog, '*', 'r', concat(f.rec)) end
  if f.jdel then call('HDEL', k .. xJobs, unpack(f.jdel)) end
  if f.qdel then call('ZREM', k .. xQueue, unpack(f.qdel)) end
  if f.duedirty then duehead(f) end
  if f.odirty then
    if ended(f) and not f.complete then
      f.complete = true
      if f.phase < STOPPED then f.phase = FINISHED end
      call('ZADD', kDone, now + f.keep * 1000, f.no)
      call('ZREM', kSweep, f.no)
      call('ZREM', kDue, f.no)
      call('SREM', kCancelled, f.no)
      f.expires = true
    end
  end
  if f.rdirty then call('HSET', k, 'r', f.reason) end
  if f.dirty or f.odirty then
    local s = pack(f.phase, f.complete, f.limit, f.cur, f.cend, f.coff, f.tag, f.weight, f.ready, f.born, f.served, f.readyat, f.inf, f.nq)
    if f.odirty then call('HSET', k, 's', s, 'o', pack(unpack(f.o))) else call('HSET', k, 's', s) end
    if f.ready then
      local r = rank(f.inf, f.weight, f.tag)
      if not f.inz or r ~= f.rank0 then
        local z = t.zadd
        local n = #z
        z[n + 1], z[n + 2] = format('%d', r), f.m -- Redis prints numbers slowly
      end
    elseif f.inz then
      t.zrem[#t.zrem + 1] = f.m
    end
  end
  if f.expires then expire(f, f.keep) end
end

local function flushtenant(t)
  if t.over then
    call('UNLINK', t.k, t.k .. xReady)
    return call('ZREM', kReady, t.m)
  end
  flushspans(t)
  if #t.zrem > 0 then call('ZREM', t.k .. xReady, unpack(t.zrem)) end
  for i = 1, #t.zadd, 1000 do call('ZADD', t.k .. xReady, unpack(t.zadd, i, min(i + 999, #t.zadd))) end
  call('HSET', t.k, 's', t.tag, 'v', t.v, 'i', t.inf, 'c', t.small, 'e', t.tail)
  if t.weighed then call('HSET', t.k, 'w', t.weight) end
  if t.nready > 0 then
    call('ZADD', kReady, rank(t.inf, t.weight, t.tag), t.m)
  elseif t.wasready then
    call('ZREM', kReady, t.m)
  end
end

local function session(sid)
  local s = S[sid]
  if not s then
    s = { k = pSession .. sid .. xLeases, add = {}, del = {} }
    S[sid] = s
  end
  return s
end

local function flushlocks()
  local set, del = {}, {}
  for name in pairs(lkdirty) do
    local v = lk[name]
    if v then
      set[#set + 1] = name
      set[#set + 1] = v
    else
      del[#del + 1] = name
    end
  end
  for i = 1, #set, 1000 do call('HSET', kLocks, unpack(set, i, min(i + 999, #set))) end
  for i = 1, #del, 1000 do call('HDEL', kLocks, unpack(del, i, min(i + 999, #del))) end
end

-- tellnews hints at the runs with news; see DESIGN.md.
local function tellnews()
  for i = 1, #news, NEWS_PAGE do
    local page = #news <= NEWS_PAGE and news or { unpack(news, i, min(i + NEWS_PAGE - 1, #news)) }
    call('XADD', kNews, 'MAXLEN', '~', NEWS_KEPT, '*', 'r', pack(page))
  end
end

-- marker: at most one exists; it says "somebody look", never which job.
local function marker()
  local wake = call('EXISTS', kReady) == 1 or call('EXISTS', kSweep) == 1 or call('ZCOUNT', kClosing, '-inf', now) > 0
  if not wake then
    local head = call('ZRANGE', kDue, 0, 0, 'WITHSCORES')[2]
    head = head and tonumber(head)
    wake = head and head < now + KEEP_WAKE and (tkat <= now or head < tkat)
  end
  if wake and call('EXISTS', kMark) == 0 then call('LPUSH', kMark, '1') end
end

local function flush(...)
  for _, f in pairs(R) do
    if f then flushrun(f) end
  end
  flushsmalls()
  for _, t in pairs(T) do flushtenant(t) end
  for _, s in pairs(S) do
    if s.over then
      call('UNLINK', s.k)
    else
      if #s.del > 0 then call('HDEL', s.k, unpack(s.del)) end
      if #s.add > 0 then call('HSET', s.k, unpack(s.add)) end
    end
  end
  flushlocks()
  tellnews()
  tick('seq', seq, 'bseq', bseq, 'vt', vt, ...)
  marker()
end
