-- write.lua: changes of records, each if its version is right.
-- Needs: base. ARGV: of each change, 1–256 of them: key, version (0: must not exist), what (set, keep, del), due ms (-1: never), hold µs
-- (over 0: due then, from now), data.
-- Does: records, their due times, the heads of their pages; splits a page that is full, drops one that is empty; wakes those
-- who wait when the earliest due time has become earlier; the clock.
-- Bounds: a page has at most PAGE records, and an insert splits at most one.
-- Returns: {now µs, then of each change its new version, or 0 where it was refused}.
local INF = math.huge
local last = tonumber(stored[2] or 0)
local function earliest() return tonumber(call('ZRANGE', kHeads, 0, 0, 'WITHSCORES')[2] or INF) end
local old = earliest()
local touched, order = {}, {} -- number -> member of the index
local function touch(no, member)
  if not touched[no] then order[#order + 1] = no end
  touched[no] = member
end

local function newpage(first)
  last = last + 1
  local no = string.format('%.0f', last)
  local member = first .. '\0' .. no
  call('ZADD', kIndex, 0, member)
  touch(no, member)
  return no, member
end

-- split moves the upper half of a full page to a new one, and returns the page that a new key belongs to. A key behind
-- all others begins a new page instead, so that ids that come in order leave full pages.
local function split(key, no, member)
  local m, behind = call('ZRANGE', pDue .. no, 0, -1, 'WITHSCORES'), true
  for i = 1, #m, 2 do
    if before(key, m[i]) then
      behind = false
      break
    end
  end
  if behind then return newpage(key) end
  local values, scores, zeros = call('LRANGE', pPage .. no, 0, -1), {}, {}
  for i = 1, #m, 2 do scores[m[i]], zeros[i], zeros[i + 1] = m[i + 1], 0, m[i] end
  call('ZADD', pDue .. no, unpack(zeros)) -- of one score, they are in the order of bytes
  local keys = call('ZRANGE', pDue .. no, 0, -1)
  call('DEL', pDue .. no, pPage .. no)
  local from = floor(#keys / 2) + 1
  local new, newmember = newpage(keys[from])
  local function fill(to, first, last)
    local records, dues = {}, {}
    for i = first, last do
      local due, slot = dueslot(scores[keys[i]])
      records[#records + 1] = values[slot + 1]
      dues[#dues + 1], dues[#dues + 2] = due * PAGE + i - first, keys[i]
    end
    call('RPUSH', pPage .. to, unpack(records))
    call('ZADD', pDue .. to, unpack(dues))
  end
  fill(no, 1, from - 1)
  fill(new, from, #keys)
  touch(no, member)
  if before(key, keys[from]) then return no, member end
  return new, newmember
end

-- insert puts a new record where it belongs: behind the last of the page, or where one was deleted.
local function insert(key, no, member, value)
  if not no then no, member = newpage('') end
  local n = call('LLEN', pPage .. no)
  if n == PAGE and call('ZCARD', pDue .. no) == PAGE then
    no, member = split(key, no, member)
    n = call('LLEN', pPage .. no)
  end
  if n < PAGE then
    call('RPUSH', pPage .. no, value)
    return no, member, n
  end
  local used, m = {}, call('ZRANGE', pDue .. no, 0, -1, 'WITHSCORES')
  for i = 2, #m, 2 do
    local _, slot = dueslot(m[i])
    used[slot] = true
  end
  local slot = 0
  while used[slot] do slot = slot + 1 end
  call('LSET', pPage .. no, slot, value)
  return no, member, slot
end

local out = { now }
for i = 1, #ARGV, 6 do
  local key, what, due, hold = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local no, member = pageof(key)
  local score, slot, value, _ = no and call('ZSCORE', pDue .. no, key)
  if score then
    _, slot = dueslot(score)
    value = call('LINDEX', pPage .. no, slot)
  end
  if (value and versionof(value) or 0) ~= tonumber(ARGV[i + 1]) then
    out[#out + 1] = 0
  else
    if what == 'del' then
      version = version + 1
      call('LSET', pPage .. no, slot, '')
      call('ZREM', pDue .. no, key)
    else
      local new = record(what == 'keep' and sub(value, HEAD + 1) or ARGV[i + 5])
      if value then
        call('LSET', pPage .. no, slot, new)
      else
        no, member, slot = insert(key, no, member, new)
      end
      if hold > 0 then due = milli(now + hold) elseif due < 0 then due = NEVER end
      call('ZADD', pDue .. no, due * PAGE + slot, key)
    end
    touch(no, member)
    out[#out + 1] = version
  end
end
for _, no in ipairs(order) do
  local score = call('ZRANGE', pDue .. no, 0, 0, 'WITHSCORES')[2]
  local first = dueslot(score or NEVER * PAGE)
  if first < NEVER then
    call('ZADD', kHeads, first, no)
  else
    call('ZREM', kHeads, no)
    if not score then
      call('DEL', pPage .. no)
      call('ZREM', kIndex, touched[no])
    end
  end
end
local new = earliest()
if new < old then call('XADD', kWake, 'MAXLEN', 1, '*', 'd', new) end
call('HSET', kClock, 'v', version, 'n', last)
return out
