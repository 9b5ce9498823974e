-- pool.lua: looks at what belongs to no single run, and with REPAIR mends it. For maintenance.
-- Needs: base, locks, jobs.
-- Does: counters stay ahead of what they number; run ids without a record are forgotten; locks,
-- tenant and session sets name only jobs that have a right to be there.
-- ARGV: repair 1 | 0, n, n session ids that have a set of leases, then run numbers that have a
-- record. Runs that were submitted after check.go read those are found by their ids.
-- Returns: findings as tidy.lua does.
local repair, out = ARGV[1] == '1', {}
local function found(text, mend)
  out[#out + 1] = (repair and '+' or '') .. text
  if repair then mend() end
end

local sids, nsids, highest, token, tenantno = {}, tonumber(ARGV[2]), 0, 0, 0
for i = 3, 2 + nsids do sids[#sids + 1] = ARGV[i] end
local all = allleases(sids, function(l)
  found('job ' .. l.key .. ' (by number) was leased to two sessions', function() call('HDEL', l.s.k, l.key) end)
end)
for _, sid in ipairs(sids) do
  local k = pSession .. sid .. xLeases
  if not call('ZSCORE', kSessions, sid) and call('HLEN', k) == call('HEXISTS', k, '') then
    found('a session that is no more left its set', function() call('UNLINK', k) end)
  end
end
local inflight = {} -- by tenant number
local known, smalls = {}, {}
for key, l in pairs(all) do
  token = max(token, l.token)
  local no = tonumber(string.match(key, '^(%d+)/'))
  local f = no and run(no)
  if f then
    inflight[f.tno] = (inflight[f.tno] or 0) + 1
  else
    found('a session held a job of a run that is no more', function() call('HDEL', l.s.k, key) end)
  end
end
local ids, seen, nos = call('HGETALL', kIDs), {}, {}
for i = 3 + nsids, #ARGV do seen[tonumber(ARGV[i])] = true end
for i = 2, #ids, 2 do seen[tonumber(ids[i])] = true end
for n in pairs(seen) do nos[#nos + 1] = n end
table.sort(nos)
for _, n in ipairs(nos) do
  local f, s = run(n), n .. ''
  highest = n
  if f then
    known[f.id] = true
    tenantno = max(tenantno, f.tno)
    if call('HGET', kIDs, f.id) ~= s and not (f.phase == CANCELLED and reasonof(f) == DROPPED) then
      found('run ' .. f.id .. ' was not listed', function() call('HSET', kIDs, f.id, s) end)
    end
    if not call('HGET', f.t.k, 'n') then
      local name
      local all = call('HGETALL', kTenants)
      for j = 1, #all, 2 do
        if tonumber(all[j + 1]) == f.tno then name = all[j] end
      end
      found('the record of the tenant of run ' .. f.id .. ' was gone: its weight is 1 again', function()
        call('HSET', f.t.k, 'n', name or 'unknown-' .. f.tno, 'w', 1)
        call('HSET', kTenants, name or 'unknown-' .. f.tno, f.tno)
      end)
    elseif call('HGET', kTenants, call('HGET', f.t.k, 'n')) ~= tostring(f.tno) then
      local name = call('HGET', f.t.k, 'n')
      found('the tenant of run ' .. f.id .. ' was not listed', function() call('HSET', kTenants, name, f.tno) end)
    end
    if f.small then
      smalls[f.t] = (smalls[f.t] or 0) + 1
    elseif call('SISMEMBER', f.t.k .. xRuns, n) == 0 then
      found('run ' .. f.id .. ' was not in the set of its tenant', function() call('SADD', f.t.k .. xRuns, n) end)
    end
    local n = inflight[f.tno] or 0
    if f.t.inf ~= n then
      found('the tenant of run ' .. f.id .. ' counted ' .. f.t.inf .. ' jobs in flight, it has ' .. n, function() f.t.inf = n end)
      inflight[f.tno] = f.t.inf
    end
  end
end
for _, t in pairs(T) do
  local n = smalls[t] or 0
  if t.small ~= n then
    found('the tenant ' .. t.no .. ' (by number) counted ' .. t.small .. ' small runs, it has ' .. n, function() t.small = n end)
  end
end
for _, v in ipairs({ { 'run', highest }, { 'tenant', tenantno }, { 'seq', token } }) do
  if tonumber(call('HGET', kMeta, v[1]) or 0) < v[2] then
    found('the counter ' .. v[1] .. ' was behind', function()
      if v[1] == 'seq' then seq = v[2] + 1000000 end
      call('HSET', kMeta, v[1], v[1] == 'seq' and seq or v[2])
    end)
  end
end
for i = 1, #ids, 2 do
  if not known[ids[i]] then
    found('the record of run ' .. ids[i] .. ' is gone and cannot be mended: it is forgotten, submit it again', function()
      call('HDEL', kIDs, ids[i])
      for _, x in ipairs(RUNKEYS) do call('UNLINK', pRun .. ids[i + 1] .. x) end
      call('HDEL', kPayloads, ids[i + 1])
      for _, set in ipairs({ kDone, kSweep, kDue }) do call('ZREM', set, ids[i + 1]) end
      call('SREM', kCancelled, ids[i + 1])
    end)
  end
end
local locks = call('HGETALL', kLocks)
for i = 1, #locks, 2 do
  local no, idx = string.match(locks[i + 1], '^(%d+)/(%d+)$')
  local right = no and (all[locks[i + 1]] or call('HEXISTS', pRun .. no .. xHeirs, idx) == 1)
  if no and not right then
    local f = run(tonumber(no))
    right = f and select(5, jobstate(f, tonumber(idx)))
  end
  if not right and locks[i] ~= '' then
    found('the lock of ' .. sub(locks[i], 3) .. ' was held by nobody who lives', function()
      setlock(locks[i], false)
      handoff(locks[i])
    end)
  end
end
for _, m in ipairs(call('ZRANGE', kWait, 0, -1)) do
  local no, idx = sunpack('>I5I4', m, #m - 8)
  if call('HGET', pRun .. no .. xBlocked, idx) ~= m then
    found('somebody stood in line for a lock who was not blocked', function() call('ZREM', kWait, m) end)
  end
end
if repair and #out > 0 then flush() end
return out
