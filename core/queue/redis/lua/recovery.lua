-- recovery.lua: what servers ask and decide after a restart or failover.
-- Needs: base, trust. ARGV: '' to ask; 'trust' and the id of the doubt; 'hold'.
-- Returns: {id of the doubt, changes were lost 1 | 0}; {} when the server is trusted, or leases are
-- only held.
local verb = ARGV[1]
if verb == 'hold' and not distrusted(0) then
  call('HSET', kMeta, 'trusted', '-', 'doubted', server(), 'until', age + LEASE_TTL, 'agreed', '', 'older', 1, 'calm', 1)
elseif verb == 'hold' then
  call('HSET', kMeta, 'older', 1)
elseif verb == 'trust' and call('HGET', kMeta, 'doubted') == ARGV[2] then
  call('HSET', kMeta, 'agreed', ARGV[2])
end
local doubt, id, older = distrusted(0)
flush() -- a worker that waits sees that leases are given again
if not doubt or call('HGET', kMeta, 'calm') then return {} end
return { id, older and 1 or 0 }
