-- wait.lua: what a server asks before it blocks. Changes nothing.
-- Needs: base. ARGV: none.
-- Returns: {now µs, earliest due ms or -1, the last entry of the wake stream}.
local first = call('ZRANGE', kHeads, 0, 0, 'WITHSCORES')[2]
local e = call('XREVRANGE', kWake, '+', '-', 'COUNT', 1)[1]
return { now, tonumber(first or -1), e and e[1] or '0-0' }
