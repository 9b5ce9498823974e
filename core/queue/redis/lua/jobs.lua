-- jobs.lua: what may happen to a job between its lease and its outcome, and to a run's jobs when it
-- stops. Each function changes tables of base.lua or writes sets that nothing else caches.

local DONE, RETRY, SUSPEND, RETURN = 1, 2, 3, 4

local function append(f, field, v)
  local l = f[field]
  if l then l[#l + 1] = v else f[field] = { v } end
end

-- leaseof reads a lease, nil when there is none: token, since, host; then what only some leases
-- have.
local function leaseof(v)
  if not v or v == PAD then return nil end
  local l = { token = 0, since = 0, host = '', attempt = 1, crashes = 0, hasj = false, ha = '', group = '', key = '', s = false, lock = false }
  local attempt, crashes, hasj, ha, group
  l.token, l.since, l.host, attempt, crashes, hasj, ha, group = unpk(v)
  if attempt then l.attempt, l.crashes, l.hasj, l.ha, l.group = attempt, crashes, hasj, ha, group end
  return l
end

-- unlease ends a lease and charges the worker time; locks stay.
local function unlease(f, l)
  local t, del = f.t, l.s.del
  f.inf, t.inf = f.inf - 1, t.inf - 1
  del[#del + 1] = l.key
  local d = age - l.since
  if d > 0 then
    f.served = f.served + d
    f.tag = f.tag + d / f.weight
    t.tag = t.tag + d / t.weight
  end
  f.dirty = true
end

-- stateof is the last state of a leased job.
local function stateof(f, idx, l)
  if not l.hasj then return '' end
  local _, _, state = jobstate(f, idx)
  return state
end

-- finish records the outcome of a job that is leased no more. With a reason, detail is the job's
-- state.
local function finish(f, idx, l, oc, reason, detail)
  record(f, idx, 1, oc, l.attempt, reason, detail)
  if l.hasj then append(f, 'jdel', idx) end
  release(f, idx, l.host, l.ha, l.group, l.key, l.lock)
  threshold(f, oc, idx)
  touch(f)
end

local function wait(f, idx, set, at)
  grow(f)
  call('ZADD', f.k .. set, at, idx)
  f.duedirty = true
end

-- setjob writes the state of a job, with its cleanup and as jobstate gives it.
local function setjob(f, idx, flag, made, crashes, state, event, keep, token, number)
  grow(f)
  local v
  if flag > 0 then
    v = pack(made, crashes, state, event, keep, token or false, number or false, flag)
  elseif token then
    v = pack(made, crashes, state, event, keep, token, number)
  else
    v = pack(made, crashes, state, event, keep)
  end
  call('HSET', f.k .. xJobs, idx, v)
end

-- silent is why a job of a run that is over ended as lost.
local function silent(f, node)
  return 'worker ' .. node .. ' was silent past its lease while it held the job, and the run had ended: ' .. string.match(reasonof(f), '^[^\31]*') .. WORKER_LOST
end

-- unheard is why a job that is not to continue ended as lost: its last lease crashed, and nobody
-- said since what the host saw. Else nil.
local function unheard(f, idx)
  local token, node = select(6, jobstate(f, idx))
  if token ~= 0 then return nil end
  return silent(f, node)
end

-- owes: a job that stop and cancel do not end is leased once more, for its cleanup.
local function owes(f, flag)
  local why = flag > 0 and reasonof(f)
  return why and why ~= DROPPED and sub(why, -#QUEUE_OLDER) ~= QUEUE_OLDER
end

-- ack: flag is 1 if the ack says that the job has a cleanup.
local function ack(f, idx, l, kind, oc, after, keep, detail, state, event, flag)
  unlease(f, l)
  local n, had = l.attempt - 1, kind ~= DONE and l.hasj and cleanup(f, idx) or 0
  local last = kind ~= DONE and f.phase >= STOPPED
  if kind == RETURN then flag = had end
  if last and owes(f, flag) and not (had == 2 and event ~= '' and after == 0) and not (kind == RETURN and had == 1 and unheard(f, idx)) then
    flag, event = 2, ''
    if had < 2 then after = 0 end
    if kind == RETURN then
      local _, _, kept = jobstate(f, idx)
      setjob(f, idx, 2, n, l.crashes, kept, '', false)
    end
  elseif last then
    if kind == RETRY then return finish(f, idx, l, oc, '', detail) end
    l.attempt = n
    local why = kind == RETURN and l.hasj and unheard(f, idx)
    local last = kind == SUSPEND and state or stateof(f, idx, l)
    if why then return finish(f, idx, l, LOST, why, last) end
    return finish(f, idx, l, CANCEL, reasonof(f), last)
  end
  if kind == DONE then return finish(f, idx, l, oc, '', detail) end
  if not keep then release(f, idx, l.host, l.ha, l.group, l.key, l.lock) end
  if kind == RETRY then
    setjob(f, idx, flag, n + 1, l.crashes, state, '', false)
  elseif kind == SUSPEND then
    f.tell = true
    setjob(f, idx, flag, n, l.crashes, state, event, keep)
    if event ~= '' then call('ZADD', f.k .. xEvents, 0, char(#event) .. event .. spack('>I4', idx)) end
  end
  if last then
    close(f, idx, after)
  elseif after == 0 and event == '' then
    again(f, idx)
  else
    wait(f, idx, kind == SUSPEND and xSuspended or xWaiting, after == 0 and 'inf' or now + after)
  end
  touch(f)
end

-- crash is what becomes of a job whose session is gone.
local function crash(f, idx, l, node)
  unlease(f, l)
  local crashes, flag = l.crashes + 1, l.hasj and cleanup(f, idx) or 0
  if f.hold then
    return finish(f, idx, l, LOST, 'worker ' .. node .. ' was silent past its lease while it held the job; nobody knows what the host saw' .. WORKER_LOST, stateof(f, idx, l))
  end
  if f.phase >= STOPPED and flag < 2 then
    return finish(f, idx, l, LOST, silent(f, node), stateof(f, idx, l))
  end
  if crashes >= f.maxcrash then
    return finish(f, idx, l, LOST, 'its worker died ' .. crashes .. ' times, the last was ' .. node .. WORKER_LOST, stateof(f, idx, l))
  end
  local d = f.bint * 2 ^ min(l.crashes, 16)
  if f.bmax > 0 then d = min(d, f.bmax) end
  d = floor(d + d * f.bjit * ((l.token % 1000 * 7919) % 1000) / 1000)
  local _, _, state = jobstate(f, idx)
  setjob(f, idx, flag, l.attempt, crashes, state, '', false, 0, node)
  if flag == 2 then close(f, idx, d) elseif d > 0 then wait(f, idx, xWaiting, now + d) else again(f, idx) end
  release(f, idx, l.host, l.ha, l.group, l.key, l.lock)
  touch(f)
end

-- held reads at most n leases of a session, the latest first, and whether those were all.
local function held(sid, n)
  local s, list = session(sid), {}
  local page = call('HRANDFIELD', s.k, n + 1, 'WITHVALUES') -- one of them may be no lease
  for i = 1, #page, 2 do
    local key = page[i]
    local no, idx = string.match(key, '^(%d+)/(%d+)$')
    if no and #list < n then
      local f, l = run(tonumber(no)), leaseof(page[i + 1])
      if f then
        l.f, l.idx, l.key, l.s = f, tonumber(idx), key, s
        list[#list + 1] = l
      else
        s.del[#s.del + 1] = key
      end
    end
  end
  table.sort(list, function(a, b) return a.token > b.token end)
  return list, #page / 2 <= n
end

-- reap recovers at most n jobs of expired sessions; returns how many sessions were given up.
local function reap(n)
  local gone = 0
  for _, sid in ipairs(call('ZRANGEBYSCORE', kSessions, '-inf', age, 'LIMIT', 0, 8)) do
    if n <= 0 then break end
    local node = call('HGET', kNodes, sid) or '?'
    local list, all = held(sid, n)
    for _, l in ipairs(list) do crash(l.f, l.idx, l, node) end
    if all then
      call('ZREM', kSessions, sid)
      call('HDEL', kNodes, sid)
      session(sid).over = true
      gone = gone + 1
    end
    n = n - #list
  end
  return gone
end

-- ripen moves at most n due entries of a run to its ready work; returns how many.
local function ripen(f, n)
  if f.small then
    if f.due > 0 and f.due <= wall then
      f.due, f.cend = 0, f.total
      touch(f)
    end
    return 1
  end
  local had = n
  local due, late = call('ZRANGEBYSCORE', f.k .. xSegments, '-inf', wall, 'LIMIT', 0, n), 0
  for _, m in ipairs(due) do
    local a, b = range(m)
    call('ZREM', f.k .. xSegments, m)
    addrange(f, a, b)
    late = late + released(f, a, b)
  end
  defer(f, -late)
  if #due > 0 and f.limit < f.total then call('ZREM', f.k .. xByIndex, unpack(due)) end
  n = n - #due
  for _, set in ipairs({ xWaiting, xSuspended }) do
    local jobs = n > 0 and call('ZRANGEBYSCORE', f.k .. set, '-inf', now, 'LIMIT', 0, n) or {}
    for _, idx in ipairs(jobs) do
      call('ZREM', f.k .. set, idx)
      again(f, tonumber(idx))
      if set == xSuspended then
        f.tell = true
        local event = select(4, jobstate(f, tonumber(idx)))
        if event ~= '' then call('ZREM', f.k .. xEvents, char(#event) .. event .. spack('>I4', idx)) end
      end
    end
    n = n - #jobs
  end
  f.duedirty = true
  touch(f)
  return had - n
end

-- activate moves at most n due entries; a run's share is such that eight due runs get on at once.
local function activate(n)
  for _, f in pairs(R) do
    if f and f.duedirty then
      duehead(f)
      f.duedirty = nil
    end
  end
  local heads = call('ZRANGEBYSCORE', kDue, '-inf', now, 'LIMIT', 0, 4 * n)
  smallruns(heads)
  for i, no in ipairs(heads) do
    if n <= 0 then break end
    local f = run(tonumber(no))
    if f and f.small then
      n = n - 0.25 * ripen(f)
      if f.due == 0 then duedel[#duedel + 1] = no else duehead(f) end
    elseif f then
      f.overdue = true
      n = n - ripen(f, max(8, floor(n / (#heads - i + 1))))
    else
      call('ZREM', kDue, no)
    end
  end
  return n > 0
end

local function cancelsingle(f, idx, reason)
  local made, _, state, event, keep = jobstate(f, idx)
  if event ~= '' then call('ZREM', f.k .. xEvents, char(#event) .. event .. spack('>I4', idx)) end
  local why = unheard(f, idx)
  record(f, idx, 1, why and LOST or CANCEL, made, why or reason or reasonof(f), state)
  append(f, 'jdel', idx)
  local m = call('HGET', f.k .. xHeirs, idx)
  if m then
    call('HDEL', f.k .. xHeirs, idx)
    drop(f, lockof(m), idx)
  end
  if keep then
    local host, ha, group = target(f, idx)
    if host then release(f, idx, host, ha, group) end
  end
end

-- endsingle ends a job of a run that has ended. One with a cleanup is leased once more instead.
local function endsingle(f, idx)
  local flag = cleanup(f, idx)
  if not owes(f, flag) or flag == 1 and unheard(f, idx) then return cancelsingle(f, idx) end
  local made, crashes, state, event, keep = jobstate(f, idx)
  if event ~= '' then call('ZREM', f.k .. xEvents, char(#event) .. event .. spack('>I4', idx)) end
  setjob(f, idx, 2, made, crashes, state, '', keep)
  close(f, idx, 0)
end

local function cancelrange(f, a, b)
  if a < b then record(f, a, b - a, CANCEL, 0, reasonof(f), '') end
end

-- sweep ends at most n entries of a stopped run as cancelled; returns what is left of n.
local function sweep(f, n)
  if f.cur < f.cend then
    cancelrange(f, f.cur, f.cend)
    f.cur, n = f.cend, n - 1
  end
  for _, set in ipairs({ xRanges, xSegments }) do
    local ms = n > 0 and call('ZRANGE', f.k .. set, 0, n - 1) or {}
    local late = 0
    for _, m in ipairs(ms) do
      local a, b = range(m)
      cancelrange(f, a, b)
      late = late + released(f, a, b)
    end
    if set == xSegments then defer(f, -late) end
    if #ms > 0 then call('ZREM', f.k .. set, unpack(ms)) end
    n = n - #ms
  end
  -- Blocked jobs go before the ready ones: a lock that those give back must not make one of these
  -- ready.
  local b = n > 0 and call('HRANDFIELD', f.k .. xBlocked, n, 'WITHVALUES') or {}
  for i = 1, #b, 2 do
    call('HDEL', f.k .. xBlocked, b[i])
    waiters = waiters - call('ZREM', kWait, b[i + 1])
    endsingle(f, tonumber(b[i]))
    n = n - 1
  end
  for _, set in ipairs({ xQueue, xWaiting, xSuspended }) do
    local jobs = n > 0 and call('ZRANGE', f.k .. set, 0, n - 1) or {}
    for _, idx in ipairs(jobs) do endsingle(f, tonumber(idx)) end
    if #jobs > 0 then call('ZREM', f.k .. set, unpack(jobs)) end
    if set == xQueue then f.nq = f.nq - #jobs end
    n = n - #jobs
  end
  if n > 0 then
    call('ZREM', kSweep, f.no)
    call('UNLINK', f.k .. xOrder, f.k .. xByIndex)
  end
  f.dirty = true
  return n
end

-- sweepsome continues with stopped runs; returns whether nothing is left.
local function sweepsome(n)
  for _, no in ipairs(call('ZRANGE', kSweep, 0, 7)) do
    local f = run(tonumber(no))
    if f then n = sweep(f, n) else call('ZREM', kSweep, no) end
    if n <= 0 then return false end
  end
  return true
end

-- stopping lists leased jobs of the session in cancelled runs: run id, index, …; at most 256, out
-- of a random 512 of its leases, so that a large session hears of all of them in a few calls.
local function stopping(sid)
  local out = {}
  if call('EXISTS', kCancelled) == 0 then return out end
  for _, key in ipairs(call('HRANDFIELD', pSession .. sid .. xLeases, 512)) do
    local no, idx = string.match(key, '^(%d+)/(%d+)$')
    if no and call('SISMEMBER', kCancelled, no) == 1 and #out < 512 then
      local f = run(tonumber(no))
      if f and cleanup(f, idx) < 2 then
        out[#out + 1] = f.id
        out[#out + 1] = tonumber(idx)
      end
    end
  end
  return out
end

-- allleases reads every lease there is, by RUN/INDEX; for maintenance. sids are sessions that may
-- not be listed any more. A job that two sessions hold belongs to the later lease; lost is told of
-- the other.
local function allleases(sids, lost)
  local all, seen = {}, {}
  for _, list in ipairs({ call('ZRANGE', kSessions, 0, -1), sids }) do
    for _, sid in ipairs(list) do
      local page = seen[sid] and {} or call('HGETALL', pSession .. sid .. xLeases)
      seen[sid] = true
      for i = 1, #page, 2 do
        local key, l = page[i], leaseof(page[i + 1])
        if l and key ~= '' then
          l.sid, l.key, l.s = sid, key, session(sid)
          local other = all[key]
          if other and other.token > l.token then l, other = other, l end
          all[key] = l
          if other and lost then lost(other) end
        end
      end
    end
  end
  return all
end
