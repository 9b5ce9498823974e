-- forget.lua: old runs leave Redis. A library: beat.lua, accept.lua and submit.lua call it.
-- Does: takes away at most n complete runs whose retention is over, and tenants that have none
-- left. UNLINK frees memory outside the main thread, so the pause does not grow with the run.

local function leave(t)
  if t.small > 0 or t.over or call('EXISTS', t.k .. xRuns) == 1 then return end
  call('HDEL', kTenants, call('HGET', t.k, 'n') or '')
  t.over = true
end

local function forget(n)
  local old = call('ZRANGEBYSCORE', kDone, '-inf', now, 'LIMIT', 0, n)
  if #old == 0 then return end
  local small, ids, of, gone = call('HMGET', kSmall, unpack(old)), {}, {}, {}
  for i, no in ipairs(old) do
    local k, text = pRun .. no, small[i]
    if text then
      local tno, _, _, fix = select(13, unpk(text))
      local t = tenant(tno)
      t.small = t.small - 1
      ids[#ids + 1], of[#of + 1], gone[#gone + 1] = unpk(fix), no, no
      leave(t)
    else
      local c = call('HGET', k, 'c')
      if c then
        local id, tno = unpk(c)
        ids[#ids + 1], of[#of + 1] = id, no
        call('SREM', pTenant .. tno .. xRuns, no)
        leave(tenant(tno))
      end
      call('UNLINK', k)
      for _, x in ipairs(RUNKEYS) do call('UNLINK', k .. x) end
    end
  end
  if #ids > 0 then
    for i, no in ipairs(call('HMGET', kIDs, unpack(ids))) do
      if no == of[i] then call('HDEL', kIDs, ids[i]) end -- else the run was dropped, and its id submitted again
    end
  end
  if #gone > 0 then
    call('HDEL', kSmall, unpack(gone))
    call('HDEL', kPayloads, unpack(gone))
  end
  call('ZREM', kDone, unpack(old))
end
