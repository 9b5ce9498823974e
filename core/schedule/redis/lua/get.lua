-- get.lua: records by their keys. Changes nothing.
-- Needs: base. ARGV: keys, at most 256.
-- Returns: {now µs, then of each that exists: key, version, due ms or -1, data}.
local out = { now }
for _, key in ipairs(ARGV) do
  local no = pageof(key)
  local value = no and call('HGET', pPage .. no, key)
  if value then
    local n = #out
    out[n + 1], out[n + 2], out[n + 3], out[n + 4] = key, head(value), tonumber(call('ZSCORE', pDue .. no, key) or -1), sub(value, HEAD + 1)
  end
end
return out
