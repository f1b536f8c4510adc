-- reap: returns leases to the frontier: expired ones, or all (a stopped node has no fetchers).
--
-- ARGV 1  now, ms
--      2  lane
--      3  base_delay_ms
--      4  most leases in this call
--      5  '1' for all, '0' for expired ones
-- returns how many were reaped

local now = clock(ARGV[1])
local lane = ARGV[2]
base_delay = tonumber(ARGV[3])
local until_ms = ARGV[5] == '1' and '+inf' or now
local leases = call('ZRANGEBYSCORE', 'leases:' .. lane, '-inf', until_ms, 'LIMIT', 0, tonumber(ARGV[4]))
for _, lease in ipairs(leases) do reap(lane, lease, now) end
commit()
return #leases
