-- names.lua: lists documents of the board; board.go calls it until it answers cursor 0.
-- Needs: base. Does: takes at most 512 expired names out of the index; writes the clock, so that a
-- server which may not write refuses, as in posted.lua.
-- ARGV: cursor ('0' at first), prefix. Returns: {next cursor, names}. Bounds: a page of about 512
-- names.
tick()
local old = call('ZRANGEBYSCORE', kBoard, '-inf', now, 'LIMIT', 0, 512)
if #old > 0 then call('ZREM', kBoard, unpack(old)) end
local page, names, prefix = call('ZSCAN', kBoard, ARGV[1], 'COUNT', 512), {}, ARGV[2]
for i = 1, #page[2], 2 do
  local name = page[2][i]
  if tonumber(page[2][i + 1]) > now and sub(name, 1, #prefix) == prefix then names[#names + 1] = name end
end
return { page[1], names }
