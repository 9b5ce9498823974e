-- submit.lua: accepts small runs, each by itself.
-- Needs: base, locks, jobs, forget.
-- Does: gives each new run a number and one record; makes its tenant; makes it ready, or lists it
-- by its time; forgets at most 2 old runs for each.
-- ARGV: msgpack of {name of a tenant, its weight, …} and {for each run: id, place of its tenant
--   among the tenants, weight, limit, paused, due µs or 0, hosts, config, the rest, payload or ''
--   …}: config is what class reads, the rest is msgpack of id, packed targets, digest, payload, or
--   true where that is apart.
-- Returns: a letter a run: c created, s the same is there, x there is one with other content.
-- Bounds: what ARGV holds; batch.go sends at most 256 runs and about 256 KiB.

local names, list = unpk(ARGV[1])
local n = #list / 10
local ids, answers, first, made = {}, {}, {}, 0
for i = 1, n do ids[i] = list[10 * i - 9] end
local known = call('HMGET', kIDs, unpack(ids))

local function digestof(no)
  local text = call('HGET', kSmall, no)
  if text then return (select(3, unpk((select(16, unpk(text)))))) end
  return call('HGET', pRun .. no, 'd')
end

for i = 1, n do
  local id = ids[i]
  if known[i] or first[id] then
    local had = known[i] and digestof(known[i]) or (select(3, unpk(list[10 * first[id] - 1])))
    answers[i] = had == select(3, unpk(list[10 * i - 1])) and 's' or 'x'
  else
    first[id], made, answers[i] = i, made + 1, 'c'
  end
end

if made > 0 then
  local no = call('HINCRBY', kMeta, 'run', made) - made
  local tenants, idset, due = {}, {}, {}
  call('HSETNX', kLocks, '', PAD)
  for i = 1, n do
    if answers[i] == 'c' then
      local p = 10 * i - 9
      local ref, weight, limit, paused, at, total, cfg, fix = list[p + 1], list[p + 2], list[p + 3], list[p + 4], list[p + 5], list[p + 6], list[p + 7], list[p + 8]
      no = no + 1
      local t = tenants[ref]
      if not t then
        t = tenantof(names[2 * ref - 1])
        tenants[ref] = t
      end
      t.weight, t.weighed, t.small = names[2 * ref], true, t.small + 1
      local prio, tag, s = class(cfg).__index.prio, 0, no .. ''
      if at <= wall then
        at = 0
      else
        due[#due + 1] = format('%d', at + ahead)
        due[#due + 1] = s
      end
      if at == 0 and not paused then
        tag = t.v - prio * 1000000 -- queue.HeadStart, in µs
        t.nready = t.nready + 1
        if t.nready == 1 then t.tag = max(t.tag, vt) end
        join(t, no, prio, rank(0, weight, tag))
      end
      newsmall(s, at == 0 and not paused, paused, limit, tag, weight, at, t.no, total, cfg, fix)
      if list[p + 9] ~= '' then call('HSET', kPayloads, s, list[p + 9]) end
      idset[#idset + 1] = list[p]
      idset[#idset + 1] = s
      news[#news + 1] = list[p]
    end
  end
  each(idset, function(...) call('HSET', kIDs, ...) end)
  each(due, function(...) call('ZADD', kDue, ...) end)
  forget(2 * made)
  flush()
end
return concat(answers)
