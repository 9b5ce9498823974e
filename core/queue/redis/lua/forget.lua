-- forget.lua: old runs leave Redis. A library: beat.lua and accept.lua call it.
-- Does: unlinks at most n complete runs whose retention is over, and tenants that have none left.
-- UNLINK frees memory outside the main thread, so the pause does not grow with the run.

local function forget(n)
  for _, no in ipairs(call('ZRANGEBYSCORE', kDone, '-inf', now, 'LIMIT', 0, n)) do
    local k = pRun .. no
    local c = call('HGET', k, 'c')
    if c then
      local id, tno = unpk(c)
      call('HDEL', kIDs, id)
      call('SREM', pTenant .. tno .. xRuns, no)
      if call('EXISTS', pTenant .. tno .. xRuns) == 0 then
        call('HDEL', kTenants, call('HGET', pTenant .. tno, 'n') or '')
        call('UNLINK', pTenant .. tno, pTenant .. tno .. xReady)
      end
    end
    call('UNLINK', k)
    for _, x in ipairs(RUNKEYS) do call('UNLINK', k .. x) end
    call('ZREM', kDone, no)
  end
end
