-- tidy.lua: looks at one run, and with REPAIR mends what contradicts. For maintenance: its work
-- grows with the jobs of the run that have a state of their own.
-- Needs: base, locks, jobs.
-- Does: every lease has its locks, a session and its place in the sets; blocked jobs are in exactly
-- one place; places in the ready, due, sweep and done sets follow from the run's record. A small
-- run that is to be mended becomes one like any other first.
-- ARGV: repair 1 | 0, run id, n, n session ids that have a set of leases, then the indexes that
-- ended (before, and from the log, read by check.go), as ascending ranges of 8 bytes (from, to),
-- and the run's number and how far its log was read; both absent on the first call.
-- Returns: {'LOG', last entry id, total, '', number and how far that is}, of a small run {'LOG',
-- '', total, its records, number and how far}, where that log was not read so far: workers may end
-- jobs meanwhile. Else findings as texts, a '+' in front of each that is repaired.
local repair, id = ARGV[1] == '1', ARGV[2]
local no = call('HGET', kIDs, id)
local f = no and run(tonumber(no))
if not f then return { '!' } end
local k = f.k
local o, recorded = outcomes(f), 0
for i = 1, 8 do recorded = recorded + o[i] end
local nsids = tonumber(ARGV[3])
do -- a job that ended behind what was read would look like one that was lost
  local last = not f.small and call('XREVRANGE', k .. xLog, '+', '-', 'COUNT', 1)[1]
  local upto = f.small and #f.log .. '' or last and last[1] or '0-0'
  local read = no .. ' ' .. upto -- of this run: its id may have been submitted again
  if ARGV[5 + nsids] ~= read then return { 'LOG', f.small and '' or upto, f.total, f.small and f.log or '', read } end
end

local out = {}
local function found(text, mend)
  out[#out + 1] = ((repair and mend) and '+' or '') .. text
  if repair and mend then
    grow(f)
    mend()
  end
end
local function job(idx) return f.id .. '/' .. idx end

-- Where every job with a state is. A job that ended is nowhere else; none is in two places.
local at = {}
local function put(idx, where, remove)
  idx = tonumber(idx)
  if at[idx] then
    found('job ' .. job(idx) .. ' is ' .. where .. ' and also ' .. at[idx], remove)
  else
    at[idx] = where
  end
end
local sids, leases = {}, {}
for i = 4, 3 + nsids do sids[#sids + 1] = ARGV[i] end
for key, l in pairs(allleases(sids)) do
  local no, idx = string.match(key, '^(%d+)/(%d+)$')
  if tonumber(no) == f.no then
    l.idx = tonumber(idx)
    leases[#leases + 1] = l
    put(idx, 'leased')
  end
end
if f.inf ~= #leases then
  found('run ' .. f.id .. ' counted ' .. f.inf .. ' jobs in flight, it has ' .. #leases, function() f.inf = #leases end)
end
local blocked = call('HGETALL', k .. xBlocked)
for i = 1, #blocked, 2 do
  local idx, m = blocked[i], blocked[i + 1]
  put(idx, 'blocked', function()
    call('HDEL', k .. xBlocked, idx)
    call('ZREM', kWait, m)
  end)
end
for _, set in ipairs({ { xWaiting, 'waiting' }, { xSuspended, 'suspended' }, { xQueue, 'ready' } }) do
  for _, idx in ipairs(call('ZRANGE', k .. set[1], 0, -1)) do
    put(idx, set[2], function() call('ZREM', k .. set[1], idx) end)
  end
end

-- Of a run that has ended: who is leased once more, for a cleanup.
local closing = 0
do
  local jobs = f.phase >= STOPPED and call('HGETALL', k .. xJobs) or {}
  for i = 1, #jobs, 2 do
    local idx = tonumber(jobs[i])
    if select(8, unpk(jobs[i + 1])) == 2 then
      local key = closekey(f, idx)
      local listed, where = call('ZSCORE', kClosing, key), at[idx]
      if where and listed then
        found('job ' .. job(idx) .. ' waits for its cleanup and is also ' .. where, function() call('ZREM', kClosing, key) end)
      elseif not where and not listed then
        found('job ' .. job(idx) .. ' had a cleanup and did not wait for it', function() close(f, idx, 0) end)
      end
      at[idx] = where or 'closing'
      if where ~= 'leased' then closing = closing + 1 end
    end
  end
end

-- What has neither a state, an outcome, nor lies in a range is missing.
-- The ready ranges and what has ended are many and come in order: only the others are sorted.
local spans, ready, last = { { f.cur, f.small and f.total or f.cend } }, {}, -1
for _, set in ipairs({ xRanges, xSegments }) do
  for _, m in ipairs(call('ZRANGE', k .. set, 0, -1)) do
    local a, b = range(m)
    if set == xRanges and a >= last then
      ready[#ready + 1], last = { a, b }, a
    else
      spans[#spans + 1] = { a, b }
    end
  end
end
local logged, over = 0, {}
for i = 1, #ARGV[4 + nsids], 8 do
  local a, b = sunpack('>I4I4', ARGV[4 + nsids], i)
  logged = logged + b - a
  over[#over + 1] = { a, b }
end
for idx, where in pairs(at) do
  local lo, hi = 1, #over + 1 -- the first range that ends behind idx
  while lo < hi do
    local mid = floor((lo + hi) / 2)
    if over[mid][2] > idx then hi = mid else lo = mid + 1 end
  end
  if over[lo] and over[lo][1] <= idx then
    found('job ' .. job(idx) .. ' has an outcome and is ' .. where, function()
      for _, set in ipairs({ xWaiting, xSuspended, xQueue }) do call('ZREM', k .. set, idx) end
      for _, h in ipairs({ xBlocked, xHeirs, xOrder, xJobs }) do call('HDEL', k .. h, idx) end
      call('ZREM', kClosing, closekey(f, idx))
      for _, l in ipairs(leases) do
        if l.idx == idx then
          call('HDEL', l.s.k, l.key)
          f.inf, f.t.inf = f.inf - 1, f.t.inf - 1
        end
      end
    end)
  end
  spans[#spans + 1] = { idx, idx + 1 }
end
table.sort(spans, function(a, b) return a[1] < b[1] end)
local lists, front = { spans, ready, over }, { 1, 1, 1 }
local function lowest()
  local best, s
  for i = 1, 3 do
    local x = lists[i][front[i]]
    if x and (not s or x[1] < s[1]) then best, s = i, x end
  end
  if s then front[best] = front[best] + 1 end
  return s
end
local next, missing, nmissing = 0, {}, 0
for s in lowest do
  if s[1] > next then
    missing[#missing + 1] = { next, s[1] }
    nmissing = nmissing + s[1] - next
  end
  if s[2] > next then next = s[2] end
end
if next < f.total then
  missing[#missing + 1] = { next, f.total }
  nmissing = nmissing + f.total - next
end
local unlogged = recorded - logged
if nmissing > 0 and unlogged > 0 then
  -- Some of the missing ended, and the log does not say which: none may run twice.
  found(nmissing .. ' jobs of run ' .. f.id .. ' have no state, and the records of ' .. unlogged ..
    ' outcomes are gone: ended as lost where that is not known, check the hosts', function()
    o[LOST] = o[LOST] + logged - recorded
    for _, s in ipairs(missing) do record(f, s[1], s[2] - s[1], LOST, 0, 'what became of it was lost in Redis', '') end
    threshold(f, LOST, missing[1][1])
  end)
elseif nmissing > 0 then
  found(nmissing .. ' jobs of run ' .. f.id .. ' were in no set: ready again, their times forgotten', function()
    for _, s in ipairs(missing) do addrange(f, s[1], s[2]) end
  end)
elseif unlogged ~= 0 then
  found('run ' .. f.id .. ' counts ' .. recorded .. ' outcomes, its log has ' .. logged, function()
    o[LOST] = o[LOST] - unlogged
    f.odirty = true
  end)
end

-- Leases: locks, sets, session.
for _, l in ipairs(leases) do
  local idx, key = l.idx, l.key
  local names = { hostlock(l.host) }
  if l.ha ~= '' then names[#names + 1] = halock(l.ha) end
  for _, name in ipairs(names) do
    local v = getlock(name)
    if not v then
      found('leased job ' .. job(idx) .. ' did not hold its lock', function() setlock(name, key) end)
    elseif v ~= key then
      found('leased job ' .. job(idx) .. ' and job ' .. v .. ' (by number) have the same lock')
    end
  end
  if l.group ~= '' and not call('ZSCORE', k .. xPlaces, place(grouplock(f, l.group), idx)) then
    found('leased job ' .. job(idx) .. ' had no place in its group', function() take(f, grouplock(f, l.group), idx) end)
  end
  if not call('ZSCORE', kSessions, l.sid) then
    found('leased job ' .. job(idx) .. ' had no session: it is recovered as after a crash', function() call('ZADD', kSessions, 0, l.sid) end)
  end
end

-- Blocked jobs and kept locks.
for i = 1, #blocked, 2 do
  local idx, m = tonumber(blocked[i]), blocked[i + 1]
  if not call('ZSCORE', kWait, m) or isfree(f, lockof(m), -1) then
    found('blocked job ' .. job(idx) .. ' waited for a lock that nobody held, or was in no line', function()
      call('ZREM', kWait, m)
      call('HDEL', k .. xBlocked, idx)
      waiters = call('ZCARD', kWait)
      again(f, idx)
    end)
  end
end
for _, h in ipairs({ xHeirs, xOrder }) do
  for _, idx in ipairs(call('HKEYS', k .. h)) do
    local where = at[tonumber(idx)]
    if where ~= 'ready' and where ~= 'closing' then
      found('job ' .. job(idx) .. ' kept a place in line without being ready', function() call('HDEL', k .. h, idx) end)
    end
  end
end

-- Who waits for an event: a suspended job, by the word of its last ack.
local awaits = {}
for _, m in ipairs(call('ZRANGE', k .. xEvents, 0, -1)) do
  local event, idx = sub(m, 2, -5), sunpack('>I4', m, #m - 3)
  local v = call('HGET', k .. xJobs, idx)
  if at[idx] ~= 'suspended' or (v and select(4, unpk(v)) ~= event) then
    found('job ' .. job(idx) .. ' was listed for event ' .. event .. ' and does not wait for it', function() call('ZREM', k .. xEvents, m) end)
  else
    awaits[idx] = true
  end
end
for idx, where in pairs(at) do
  if where == 'suspended' and not awaits[idx] then
    local event = select(4, jobstate(f, idx))
    if event ~= '' then
      found('job ' .. job(idx) .. ' waited for event ' .. event .. ' and was not listed', function()
        call('ZADD', k .. xEvents, 0, char(#event) .. event .. spack('>I4', idx))
      end)
    elseif call('ZSCORE', k .. xSuspended, idx) == 'inf' then
      found('job ' .. job(idx) .. ' was suspended for no event and no time: ready again', function()
        call('ZREM', k .. xSuspended, idx)
        again(f, idx)
      end)
    end
  end
end

-- Segments that are not due: the count of their released targets, and their list by index, which a
-- run needs that is not all released.
do -- a script has 200 local variables at most
  local late, segments = 0, call('ZRANGE', k .. xSegments, 0, -1)
  local lists = f.phase < STOPPED and f.limit < f.total
  local listed = f.small or f.phase >= STOPPED or call('ZCARD', k .. xByIndex) == (lists and #segments or 0)
  for _, m in ipairs(segments) do
    late = late + released(f, range(m))
    if lists then listed = listed and call('ZSCORE', k .. xByIndex, m) end
  end
  local counted = tonumber(call('HGET', k, 'l') or 0)
  if counted ~= late and not f.small then
    found('run ' .. f.id .. ' counted ' .. counted .. ' jobs of segments that are not due, it has ' .. late, function() call('HSET', k, 'l', late) end)
  end
  if not listed then
    found('the segments of run ' .. f.id .. ' were not listed by index', function()
      call('UNLINK', k .. xByIndex)
      for _, m in ipairs(lists and segments or {}) do call('ZADD', k .. xByIndex, (range(m)), m) end
    end)
  end
end

-- Places that follow from the record.
local nq = call('ZCARD', k .. xQueue)
if f.nq ~= nq and not (repair and #out > 0) then -- else it is what was mended above
  found('run ' .. f.id .. ' counted ' .. f.nq .. ' jobs that are ready again, it has ' .. nq, function() end)
end
f.nq = nq
local z = call('ZSCORE', f.t.k .. xReady, f.m or level(f) .. format('%014d', f.no))
if not z and f.spanned then
  for _, m in ipairs(call('ZRANGE', f.t.k .. xReady, 0, -1)) do
    local a, b = tonumber(sub(m, 3, 16)), tonumber(sub(m, 18))
    if b and a <= f.no and f.no < b then z = call('ZSCORE', f.t.k .. xReady, m) end
  end
end
local ready = canlease(f) and haswork(f)
if (z and true or false) ~= ready or f.ready ~= ready or (z and tonumber(z) ~= rank(f.inf, f.weight, f.tag)) then
  found('run ' .. f.id .. ' stood in the wrong place among the ready', function()
    f.inz = true
    f.rank0 = -1
    if f.ready and not z then f.t.nready = f.t.nready + 1 end
    touch(f)
  end)
end
local tz = call('ZSCORE', kReady, f.t.m)
if f.t.wasready ~= (tz and true or false) then
  found('the tenant of run ' .. f.id .. ' stood in the wrong place among the ready', function() f.t.wasready = true end)
end
local head = f.small and f.due > 0 and f.due + ahead or nil
for _, set in ipairs({ xSegments, xWaiting, xSuspended }) do
  local v = call('ZRANGE', k .. set, 0, 0, 'WITHSCORES')[2]
  if v and v ~= 'inf' then
    local at = tonumber(v) + (set == xSegments and ahead or 0)
    head = min(head or at, at)
  end
end
local due = call('ZSCORE', kDue, f.no)
if head and f.phase < STOPPED and (not due or (tonumber(due) > head and tonumber(due) > now)) or (not head and due) then
  found('run ' .. f.id .. ' stood in the wrong place among the due', function() f.duedirty = true end)
end
if not f.complete and ended(f) then
  found('run ' .. f.id .. ' had all outcomes and was not complete', function() f.odirty = true end)
elseif f.complete and not call('ZSCORE', kDone, f.no) then
  found('run ' .. f.id .. ' was complete and would never be forgotten', function() call('ZADD', kDone, now + f.keep * 1000, f.no) end)
elseif not f.complete and f.phase >= STOPPED and recorded + f.inf + closing < f.total and not call('ZSCORE', kSweep, f.no) then
  found('run ' .. f.id .. ' was over and its jobs were not being cancelled', function() call('ZADD', kSweep, f.no, f.no) end)
end
if repair and #out > 0 then
  f.dirty, f.tell = true, true
  flush()
end
return out
