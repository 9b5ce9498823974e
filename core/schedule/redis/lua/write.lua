-- write.lua: changes of records, each if its version is right.
-- Needs: base. ARGV: of each change, 1–256 of them: key, version (0: must not exist), what (set, keep, del), due ms (-1: never), hold µs
-- (over 0: due then, from now), data.
-- Does: records, their due times, the heads of their pages; splits a page that is full, drops one that is empty; wakes those
-- who wait when the earliest due time has become earlier; the clock.
-- Bounds: a page has at most PAGE records, and an insert splits at most one.
-- Returns: {now µs, then of each change its new version, or 0 where it was refused}.
local INF = math.huge
local last = tonumber(stored[3] or 0)
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

-- room is the page for a key that does not exist: the one it belongs to, split before it is over full. A key behind
-- all others of the page begins a new one, so that ids that come in order leave full pages.
local function room(key, no, member)
  if not no then return newpage('') end
  local page = pPage .. no
  if call('HLEN', page) < PAGE then return no, member end
  local keys = call('HKEYS', page)
  table.sort(keys, before)
  if before(keys[#keys], key) then return newpage(key) end
  local from = floor(#keys / 2) + 1
  local move = {}
  for i = from, #keys do move[#move + 1] = keys[i] end
  local new, newmember = newpage(move[1])
  local values, dues = call('HMGET', page, unpack(move)), call('ZMSCORE', pDue .. no, unpack(move))
  local sets, scores = {}, {}
  for i, k in ipairs(move) do
    sets[2 * i - 1], sets[2 * i] = k, values[i]
    if dues[i] then scores[#scores + 1], scores[#scores + 2] = dues[i], k end
  end
  call('HSET', pPage .. new, unpack(sets))
  call('HDEL', page, unpack(move))
  if #scores > 0 then
    call('ZADD', pDue .. new, unpack(scores))
    call('ZREM', pDue .. no, unpack(move))
  end
  touch(no, member)
  if before(key, move[1]) then return no, member end
  return new, newmember
end

local out = { now }
for i = 1, #ARGV, 6 do
  local key, what, due, hold = ARGV[i], ARGV[i + 2], tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4])
  local no, member = pageof(key)
  local value = no and call('HGET', pPage .. no, key)
  if (value and head(value) or 0) ~= tonumber(ARGV[i + 1]) then
    out[#out + 1] = 0
  else
    if what == 'del' then
      version = version + 1
      call('HDEL', pPage .. no, key)
      call('ZREM', pDue .. no, key)
    else
      if not value then no, member = room(key, no, member) end
      call('HSET', pPage .. no, key, record(what == 'keep' and sub(value, HEAD + 1) or ARGV[i + 5]))
      if hold > 0 then due = milli(now + hold) end
      if due >= 0 then
        call('ZADD', pDue .. no, due, key)
      elseif value then
        call('ZREM', pDue .. no, key)
      end
    end
    touch(no, member)
    out[#out + 1] = version
  end
end
for _, no in ipairs(order) do
  local first = call('ZRANGE', pDue .. no, 0, 0, 'WITHSCORES')[2]
  if first then
    call('ZADD', kHeads, first, no)
  else
    call('ZREM', kHeads, no)
    if call('EXISTS', pPage .. no) == 0 then call('ZREM', kIndex, touched[no]) end
  end
end
local new = earliest()
if new < old then call('XADD', kWake, 'MAXLEN', 1, '*', 'd', new) end
call('HSET', kClock, 't', now, 'v', version, 'n', last)
return out
