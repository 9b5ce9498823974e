-- take.lua: hands out what is due and makes it due again after the hold.
-- Needs: base. ARGV: most records 1–256, hold µs.
-- Does: a new version and due time for each record handed out; the heads of their pages; the clock.
-- Bounds: looks at most + 1 heads, and reads of a page what is due and may be among the oldest.
-- Returns: {now µs, earliest due ms of the rest or -1, their new due ms, then of each record: key, version, data}.
local want, nowms, due = tonumber(ARGV[1]), floor(now / 1000), milli(now + ARGV[2])
local INF = math.huge
-- The oldest want records are in the first want pages by head: a later page starts no earlier than each of those.
local heads = call('ZRANGE', kHeads, 0, want, 'WITHSCORES')
local got, pages, rest, cut = {}, {}, INF, INF
local function older(a, b) return a.due < b.due or a.due == b.due and a.ord < b.ord end
local ord = 0
local function trim()
  table.sort(got, older)
  for i = #got, want + 1, -1 do got[i] = nil end
  if got[want] then cut = got[want].due end
end
for i = 1, #heads, 2 do
  local no, first = heads[i], tonumber(heads[i + 1])
  if first > nowms or first >= cut then
    rest = first
    break
  end
  local page = { no = no, k = pDue .. no, first = first, n = 0, got = {} }
  pages[#pages + 1] = page
  local most = ((cut < nowms and cut or nowms) + 1) * PAGE - 1
  local m = call('ZRANGEBYSCORE', page.k, '-inf', most, 'WITHSCORES', 'LIMIT', 0, want)
  for j = 1, #m, 2 do
    ord = ord + 1
    local d, slot = dueslot(m[j + 1])
    got[#got + 1] = { page = page, key = m[j], due = d, slot = slot, ord = ord }
  end
  if cut == INF and #got >= want or #got >= 2 * want then trim() end
end
trim()
for _, g in ipairs(got) do -- the first n of each page, for both orders are the same
  local p = g.page
  p.n = p.n + 1
  p.got[p.n] = g
end
local out, nheads = { now, -1, due }, {}
for _, p in ipairs(pages) do
  local left = p.first
  if p.n > 0 then
    left = dueslot(call('ZRANGE', p.k, p.n, p.n, 'WITHSCORES')[2] or NEVER * PAGE)
    if left == NEVER then left = INF end
    local scores, list = {}, pPage .. p.no
    for i, g in ipairs(p.got) do
      g.data = sub(call('LINDEX', list, g.slot), HEAD + 1)
      call('LSET', list, g.slot, record(g.data))
      g.version = version
      scores[2 * i - 1], scores[2 * i] = due * PAGE + g.slot, g.key
    end
    call('ZADD', p.k, unpack(scores))
    nheads[#nheads + 1], nheads[#nheads + 2] = left < due and left or due, p.no
  end
  if left < rest then rest = left end
end
for i, g in ipairs(got) do out[3 * i + 1], out[3 * i + 2], out[3 * i + 3] = g.key, g.version, g.data end
if #nheads > 0 then call('ZADD', kHeads, unpack(nheads)) end
call('HSET', kClock, 'v', version)
if rest < INF then out[2] = rest end
return out
