-- locks.lua: host locks, HA group locks, places of a run's group; who waits and who is next.
-- A lock's name is kind, length byte, text ("h\4fw-1"); of a group 'p', run number, length, text.
-- kLocks: name -> RUN/INDEX that holds it, or for whom it is kept. A run's places are members of
-- its own lexical set. kWait is lexical too: lock name, order (6 bytes), run (5), index (4); the
-- first that can lease is the heir. Bounds: handoff looks at most at 1024 waiters, each of which it
-- takes off; strip at 4096 jobs.

local function hostlock(host) return 'h' .. char(#host) .. host end
local function halock(ha) return 'g' .. char(#ha) .. ha end
local function grouplock(f, group) return 'p' .. spack('>I5', f.no) .. char(#group) .. group end

local function getlock(name)
  local v = lk[name]
  if v == nil then
    v = call('HGET', kLocks, name)
    lk[name] = v
  end
  return v
end

local function setlock(name, v)
  lk[name] = v
  lkdirty[name] = true
end

local function place(lock, idx) return lock .. spack('>I4', idx) end

-- isfree: nobody holds lock, and it is not kept for another than job (f, idx).
local function isfree(f, lock, idx)
  if byte(lock) ~= 112 then -- 'p'
    local v = getlock(lock)
    return not v or v == f.pre .. idx
  end
  local n = call('ZLEXCOUNT', f.k .. xPlaces, '[' .. lock, '(' .. lock .. '\255\255\255\255\255')
  return n < f.pergroup or call('ZSCORE', f.k .. xPlaces, place(lock, idx)) ~= false
end

local function take(f, lock, idx)
  if byte(lock) == 112 then
    call('ZADD', f.k .. xPlaces, 0, place(lock, idx))
  else
    setlock(lock, f.pre .. idx)
  end
end

-- unblock makes the waiter with member m of lock pending. It keeps its order; the place is kept for
-- it if it can be leased.
local function unblock(f, lock, idx, m)
  call('ZREM', kWait, m)
  waiters = waiters - 1
  call('HDEL', f.k .. xBlocked, idx)
  local can = canlease(f)
  if f.phase >= STOPPED and cleanup(f, idx) == 2 then
    close(f, idx, 0)
    can = true
  else
    again(f, idx)
  end
  call('HSET', f.k .. (can and xHeirs or xOrder), idx, m)
  if can then take(f, lock, idx) end
  touch(f)
  return can
end

-- handoff gives a free lock to those who wait, first blocked first, until a run takes it that can
-- lease.
local function handoff(lock)
  if waiters <= 0 then return end
  for _ = 1, 64 do
    local page = call('ZRANGEBYLEX', kWait, '[' .. lock, '(' .. lock .. '\255', 'LIMIT', 0, 16)
    for _, m in ipairs(page) do
      local _, no, idx = sunpack('>I6I5I4', m, #lock + 1)
      local f = run(no)
      if not f then
        waiters = waiters - call('ZREM', kWait, m)
      elseif not isfree(f, lock, -1) then
        return
      else
        unblock(f, lock, idx, m)
      end
    end
    if #page < 16 then return end
  end
end

-- drop gives lock back if (f, idx) has it.
local function drop(f, lock, idx, key)
  if byte(lock) == 112 then
    if call('ZREM', f.k .. xPlaces, place(lock, idx)) == 0 then return end
  else
    if getlock(lock) ~= (key or f.pre .. idx) then return end
    setlock(lock, false)
  end
  handoff(lock)
end

-- release gives back all that (f, idx) may have; key and lock are its RUN/INDEX and host lock where
-- the caller has them.
local function release(f, idx, host, ha, group, key, lock)
  drop(f, lock or hostlock(host), idx, key)
  if f.disruptive and ha ~= '' then drop(f, halock(ha), idx) end
  if f.pergroup > 0 and group ~= '' then drop(f, grouplock(f, group), idx) end
end

local function lockof(m) return sub(m, 1, #m - 15) end

-- park puts (f, idx) on lock; it keeps the order that it already had, and holds nothing meanwhile.
local function park(f, idx, lock)
  grow(f)
  local heir = call('HGET', f.k .. xHeirs, idx)
  local old = heir or call('HGET', f.k .. xOrder, idx)
  local tail
  if old then
    call('HDEL', f.k .. (heir and xHeirs or xOrder), idx)
    tail = sub(old, #old - 14)
  else
    bseq = bseq + 1
    tail = spack('>I6I5I4', bseq, f.no, idx)
  end
  local m = lock .. tail
  call('ZADD', kWait, 0, m)
  waiters = waiters + 1
  call('HSET', f.k .. xBlocked, idx, m)
  if heir then drop(f, lockof(heir), idx) end
end

-- strip: f cannot lease any more, so the locks kept for its jobs go to the next ones.
function strip(f)
  for _ = 1, 64 do
    local h = call('HRANDFIELD', f.k .. xHeirs, 64, 'WITHVALUES')
    for i = 1, #h, 2 do
      call('HDEL', f.k .. xHeirs, h[i])
      call('HSET', f.k .. xOrder, h[i], h[i + 1])
      drop(f, lockof(h[i + 1]), tonumber(h[i]))
    end
    if #h < 128 then return end
  end
end
