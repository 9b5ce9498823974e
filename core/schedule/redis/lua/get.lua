-- get.lua: records by their keys. Changes nothing.
-- Needs: base. ARGV: keys, at most 256.
-- Returns: {now µs, then of each that exists: key, version, due ms or -1, data}.
local out = { now }
for _, key in ipairs(ARGV) do
  local no = pageof(key)
  local score = no and call('ZSCORE', pDue .. no, key)
  if score then
    local due, slot = dueslot(score)
    local value, n = call('LINDEX', pPage .. no, slot), #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = key, versionof(value), due < NEVER and due or -1, sub(value, HEAD + 1)
  end
end
return out
