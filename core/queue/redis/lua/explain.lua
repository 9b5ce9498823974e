-- explain.lua: where one job is. Changes nothing.
-- Needs: base, locks, jobs. ARGV: run id, index. Returns: {state, a, b, c, until µs or -1};
-- {'NONE'} without the run, {'RANGE', total} without the job. a, b, c depend on the state: see
-- inspect.go.
-- Bounds: one look-up a session, O(log n) of the ready and of the finished ranges and, of a run
-- with timed segments, 10000 of them.
local no = call('HGET', kIDs, ARGV[1])
local f = no and run(tonumber(no))
if not f then return { 'NONE' } end
local idx = tonumber(ARGV[2])
if idx < 0 or idx >= f.total then return { 'RANGE', f.total } end

for _, sid in ipairs(call('ZRANGE', kSessions, 0, -1)) do
  local l = leaseof(call('HGET', pSession .. sid .. xLeases, f.pre .. idx))
  if l then return { 'leased', call('HGET', kNodes, sid) or '?', age - l.since, wall - age + l.since, wall - age + tonumber(call('ZSCORE', kSessions, sid)) } end
end
local v = call('HGET', f.k .. xBlocked, idx)
if v then
  local lock = lockof(v)
  local kind = sub(lock, 1, 1)
  local holder, kept = getlock(lock), 0
  if kind == 'p' then
    local m = call('ZRANGEBYLEX', f.k .. xPlaces, '[' .. lock, '(' .. lock .. '\255\255\255\255\255', 'LIMIT', 0, 1)[1]
    holder = m and f.no .. '/' .. sunpack('>I4', m, #m - 3)
  end
  local name = sub(lock, kind == 'p' and 8 or 3)
  local by = ''
  if holder then
    local hn, hi = string.match(holder, '^(%d+)/(%d+)$')
    local h = run(tonumber(hn))
    by = (h and h.id or '?') .. '/' .. hi
    if h and call('HEXISTS', h.k .. xHeirs, hi) == 1 then kept = 1 end
  end
  return { 'blocked', kind .. name, by, kept, -1 }
end
local at = call('ZSCORE', f.k .. xWaiting, idx)
if at then return { 'retrying', (jobstate(f, idx)), 0, 0, at - ahead } end
at = call('ZSCORE', f.k .. xSuspended, idx)
if at then
  return { 'suspended', select(4, jobstate(f, idx)), 0, 0, at == 'inf' and -1 or at - ahead }
end

at = call('ZSCORE', kClosing, closekey(f, idx))
if at then return { 'pending', 'closing', 0, 0, at - ahead } end

local pending = (f.cur <= idx and idx < f.cend) or call('ZSCORE', f.k .. xQueue, idx)
if not pending then
  local m = call('ZREVRANGEBYSCORE', f.k .. xRanges, idx, '-inf', 'LIMIT', 0, 1)[1]
  if m then
    local _, b = range(m)
    pending = idx < b
  end
end
if pending then
  local why = 'turn'
  if f.phase >= STOPPED then why = 'over' elseif f.phase == PAUSED then why = 'paused'
  elseif idx >= f.limit then why = 'limit' elseif not canlease(f) then why = 'full' end
  return { 'pending', why, f.inf, why == 'limit' and f.limit or why == 'full' and f.maxif or f.t.inf, -1 }
end
if f.small and f.due > 0 then return { 'pending', 'due', 0, 0, f.due } end
local seg = call('ZRANGE', f.k .. xSegments, 0, 9999, 'WITHSCORES')
for i = 1, #seg, 2 do
  local a, b = range(seg[i])
  if a <= idx and idx < b then return { 'pending', 'due', 0, 0, tonumber(seg[i + 1]) } end
end
-- What has finished: the last range that begins at idx or before.
local lo, hi = 0, call('STRLEN', f.k .. xFinished) / 9
while lo < hi do
  local mid = floor((lo + hi) / 2)
  local a, n, oc = sunpack('>I4I4B', call('GETRANGE', f.k .. xFinished, mid * 9, mid * 9 + 8))
  if idx < a then
    hi = mid
  elseif idx >= a + n then
    lo = mid + 1
  else
    return { 'done', oc, 0, 0, -1 }
  end
end
return { 'done', 0, f.no, f.small and f.log or '', -1 }
