-- news.lua: what the pool's log of hints has behind a cursor.
-- Needs: nothing. Does: begins the log where there is none, so that a cursor always names an entry.
-- ARGV: most entries, then cursors, ascending. Returns: {last entry, {1 for each cursor that is
-- there, else 0}, {entry, its runs, …} behind the first that is}.
local last = call('XREVRANGE', kNews, '+', '-', 'COUNT', 1)[1]
last = last and last[1] or call('XADD', kNews, '*', 'r', pack({}))
local there, from, list = {}, nil, {}
for i = 2, #ARGV do
  there[i - 1] = #call('XRANGE', kNews, ARGV[i], ARGV[i])
  if there[i - 1] == 1 then from = from or ARGV[i] end
end
for _, e in ipairs(from and call('XRANGE', kNews, '(' .. from, '+', 'COUNT', ARGV[1]) or {}) do
  list[#list + 1] = e[1]
  list[#list + 1] = e[2][2]
end
return { last, there, list }
