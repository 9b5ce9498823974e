-- pool.lua: looks at what belongs to no single run, and with REPAIR mends it. For maintenance.
-- Needs: base, locks, jobs.
-- Does: counters stay ahead of what they number; run ids without a record are forgotten; locks, tenant and session
-- sets name only jobs that have a right to be there.
-- ARGV: repair 1 | 0, then run numbers that have a record, ascending.
-- Returns: findings as tidy.lua does.
local repair, out = ARGV[1] == '1', {}
local function found(text, mend)
  out[#out + 1] = (repair and '+' or '') .. text
  if repair then mend() end
end

local highest, token, tenantno = tonumber(ARGV[#ARGV]) or 0, 0, 0
if #ARGV == 1 then highest = 0 end
local known = {}
for i = 2, #ARGV do
  local n = tonumber(ARGV[i])
  local f = run(n)
  if f then
    known[f.id] = true
    tenantno = max(tenantno, f.tno)
    if call('HGET', kIDs, f.id) ~= ARGV[i] then
      found('run ' .. f.id .. ' was not listed', function() call('HSET', kIDs, f.id, ARGV[i]) end)
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
    if call('SISMEMBER', f.t.k .. xRuns, n) == 0 then
      found('run ' .. f.id .. ' was not in the set of its tenant', function() call('SADD', f.t.k .. xRuns, n) end)
    end
    for _, key in ipairs(call('SMEMBERS', f.t.k .. xLeases)) do
      local rn, idx = string.match(key, '^(%d+)/(%d+)$')
      if call('HEXISTS', pRun .. rn .. xLeases, idx) == 0 then
        found('the tenant of run ' .. f.id .. ' counted a lease that is not', function()
          if call('SREM', f.t.k .. xLeases, key) == 1 then f.t.inf = f.t.inf - 1 end
        end)
      end
    end
    local l = call('HGETALL', f.k .. xLeases)
    for j = 2, #l, 2 do token = max(token, (unpk(l[j]))) end
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
local ids = call('HGETALL', kIDs)
for i = 1, #ids, 2 do
  if not known[ids[i]] then
    found('the record of run ' .. ids[i] .. ' is gone and cannot be mended: it is forgotten, submit it again', function()
      call('HDEL', kIDs, ids[i])
      for _, x in ipairs(RUNKEYS) do call('UNLINK', pRun .. ids[i + 1] .. x) end
      for _, set in ipairs({ kDone, kSweep, kDue }) do call('ZREM', set, ids[i + 1]) end
      call('SREM', kCancelled, ids[i + 1])
    end)
  end
end
local locks = call('HGETALL', kLocks)
for i = 1, #locks, 2 do
  local no, idx = string.match(locks[i + 1], '^(%d+)/(%d+)$')
  local right = no and (call('HEXISTS', pRun .. no .. xLeases, idx) == 1 or call('HEXISTS', pRun .. no .. xHeirs, idx) == 1)
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
for _, sid in ipairs(call('ZRANGE', kSessions, 0, -1)) do
  for _, key in ipairs(call('SMEMBERS', pSession .. sid .. xLeases)) do
    local no, idx = string.match(key, '^(%d+)/(%d+)$')
    local l = leaseof(call('HGET', pRun .. no .. xLeases, idx))
    if not l or l.sid ~= sid then
      found('a session held a job that was not leased to it', function() call('SREM', pSession .. sid .. xLeases, key) end)
    end
  end
end
if repair and #out > 0 then flush() end
return out
