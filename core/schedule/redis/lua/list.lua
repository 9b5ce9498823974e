-- list.lua: whole pages of records, in the order of pages, within one in none. Changes nothing.
-- Needs: base. ARGV: a key to start at, a bound that is not reached ('' is none), how many records.
-- Does: reads pages until it has that many records and those of one page more: so many may be before the start.
-- Bounds: no page is empty, so it reads as many pages as records at most.
-- Returns: {now µs, 1 if pages are left else 0, then of each record: key, version, due ms or -1, data}.
local out, n = { now, 0 }, 0
local no, member = pageof(ARGV[1])
member = member or call('ZRANGE', kIndex, 0, 0)[1]
while member do
  local first
  first, no = parts(member)
  if ARGV[2] ~= '' and not before(first, ARGV[2]) then break end
  if n >= ARGV[3] + PAGE then
    out[2] = 1
    break
  end
  local values, m = call('LRANGE', pPage .. no, 0, -1), call('ZRANGE', pDue .. no, 0, -1, 'WITHSCORES')
  for i = 1, #m, 2 do
    local due, slot = dueslot(m[i + 1])
    local value, at = values[slot + 1], #out
    n = n + 1
    out[at + 1], out[at + 2], out[at + 3], out[at + 4] = m[i], versionof(value), due < NEVER and due or -1, sub(value, HEAD + 1)
  end
  member = call('ZRANGEBYLEX', kIndex, '(' .. member, '+', 'LIMIT', 0, 1)[1]
end
return out
