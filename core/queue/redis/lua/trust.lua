-- trust.lua: whether leases may be given. A library: turn.lua, beat.lua, guest.lua, format.lua and
-- recovery.lua call it.
-- Needs: base. A server that restarted, or a replica that took over, may lack the last changes. Its
-- replication id is another one than that which kMeta names as trusted: no job is leased until
-- servers have compared the queue with the ledger, and every session that lives has called, or for
-- LEASE_TTL of age. Fields of kMeta: trusted; and until it is: doubted (the id), until (age),
-- agreed (the id that a server trusts), older (1: changes were lost), calm (1: the queue was
-- emptied, and there is nothing to compare).

-- server is the replication id of this server: a new one after each start and each promotion. It is
-- '' where INFO is not allowed.
local function server()
  local info = redis.pcall('INFO', 'replication')
  if type(info) ~= 'string' then return '' end
  local _, at = string.find(info, 'master_replid:', 1, true)
  return at and sub(info, at + 1, at + 40) or ''
end

-- trustnow ends the doubt.
local function trustnow(id)
  call('HSET', kMeta, 'trusted', id)
  call('HDEL', kMeta, 'doubted', 'until', 'agreed', 'older', 'calm')
end

-- distrusted returns whether no lease may be given, the id of the doubt, and whether changes were
-- lost. seen is the highest token that the caller was given: above the last one of the queue, it is
-- of a lease that the queue has forgotten.
local function distrusted(seen)
  local trusted, id = call('HGET', kMeta, 'trusted'), server()
  if trusted == id then return false end
  if not trusted then -- a pool of a version that trusted every server
    trustnow(id)
    return false
  end
  local v = call('HMGET', kMeta, 'doubted', 'until', 'agreed', 'older')
  local at, older = tonumber(v[2] or 0), v[4] == '1'
  if v[1] ~= id then
    at, older = age + LEASE_TTL, false
    call('HSET', kMeta, 'doubted', id, 'until', at, 'agreed', '', 'older', 0)
    call('HDEL', kMeta, 'calm')
    v[3] = ''
  end
  if seen > seq and not older then
    older = true
    call('HSET', kMeta, 'older', 1)
  end
  if at <= age or (v[3] == id and not older and call('ZCOUNT', kSessions, format('(%d', age), format('(%d', at)) == 0) then
    trustnow(id)
    return false
  end
  return true, id, older
end
