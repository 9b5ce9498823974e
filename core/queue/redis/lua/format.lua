-- format.lua: sees to it that the pool is kept as these scripts keep it.
-- Needs: trust. Does: takes a pool over from a version whose format had no number, if all its
--   sessions are among those that count as ended; leaves a text where that version keeps its meta,
--   so that each of its scripts breaks off with its first command.
-- ARGV: the format, the sessions that count as ended, as this returned them. Returns: 1; or {0,
--   format} of a newer version; or {1, sessions with their deadlines, names of their nodes} of the
--   former one; or {2}: both versions have worked with the pool.
-- Bounds: nodes of the pool.
local newer = redis.pcall('GET', kMeta)
if type(newer) == 'string' then return { 0, newer } end
local former = redis.pcall('HGETALL', kFormer)
if not former.err and #former > 0 then
  if call('HGET', kMeta, 'format') then return { 2 } end
  local held, nodes = call('ZRANGE', kSessions, 0, -1, 'WITHSCORES'), {}
  if concat(held, ' ') ~= ARGV[2] then
    for i = 1, #held, 2 do nodes[#nodes + 1] = call('HGET', kNodes, held[i]) or '' end
    return { 1, concat(held, ' '), nodes }
  end
  call('UNLINK', kMeta)
  call('HSET', kMeta, unpack(former))
end
call('SET', kFormer, ARGV[1])
call('HSET', kMeta, 'format', ARGV[1])
call('HSETNX', kMeta, 'trusted', server()) -- each process that starts asks for the format
return 1
