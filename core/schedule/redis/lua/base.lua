-- base.lua: the clock, versions and pages, shared by every script (prepended by scripts.go).
-- Needs: the locals for key names that keys.go generates. KEYS are the fixed keys and two
-- prefixes with the same hash tag; a page's keys are prefix .. number.
-- Does: reads the clock once; what is due is due at a time of day, so it follows that also when it is set back. Changes nothing by itself. Bounds: no loops but over one key's bytes.

local call = redis.call
local byte, sub, max, ceil, floor = string.byte, string.sub, math.max, math.ceil, math.floor
local HEAD = 7 -- bytes of the version that starts a record
local NEVER = 8796093022208 -- the due time, in ms, of what is never due; it times PAGE is a whole number to a double

local stored = call('HMGET', kClock, 'v', 'n')
local now -- µs
do
  local t = call('TIME')
  now = t[1] * 1000000 + t[2]
end
-- The last version: at least the clock, so that a store that was emptied or restored gives none again.
local version = max(tonumber(stored[1] or 0), now)

local function versionof(value) return (struct.unpack('>I7', value)) end
local function record(data)
  version = version + 1
  return struct.pack('>I7', version) .. data
end

-- milli is µs as a due time: rounded up, so that nothing is early.
local function milli(us) return ceil(us / 1000) end

-- A score of pDue is a record's due time and its place in the page: due * PAGE + slot.
local function dueslot(score)
  local due = floor(score / PAGE)
  return due, score - due * PAGE
end

-- before compares bytes as the index does; Lua's own < asks the server's locale.
local function before(a, b)
  for i = 1, #a do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return y ~= nil and x < y end
  end
  return #a < #b
end

-- parts takes a member of the index apart: FIRST \0 NUMBER.
local function parts(member)
  local at = string.find(member, '%z')
  return sub(member, 1, at - 1), sub(member, at + 1)
end

-- pageof is the number of the page that a key is or would be in, and its member of the index; nil where there is none.
local function pageof(key)
  local m = call('ZREVRANGEBYLEX', kIndex, '(' .. key .. '\1', '-', 'LIMIT', 0, 1)[1]
  if not m then return nil end
  local _, no = parts(m)
  return no, m
end
