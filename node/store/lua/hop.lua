-- hop: one redirect hop within the domain, registered before its request is sent.
--
-- ARGV 1  now, ms
--      2  lane
--      3  lease
--      4  msgpack [target entry, plan, life_cap, outcome, same, look]
--         outcome: what the source ended as; same: 1 if the target's URL is one this chain has
--         already been at (cookie walls); look: 1 to be told what it would be, and change nothing
--      5  the target's filter slots
-- returns {'stale'}            the lease is not ours: send nothing
--         {'seen'}             the target is known: the visit ends here
--         {'refused'}          the domain's budget is spent: the visit ends here
--         {'ok', new lease}    the target is admitted and leased in place of its source,
--                              which is done; the lease carries one hop more
--         {'ok'}               it would be
--
-- So each hop is paid for even if the fetcher dies, and no target is lost or fetched twice.

local now = clock(ARGV[1])
local lane, lease = ARGV[2], ARGV[3]
local target, plan, life_cap, outcome, same, look = unpack(cmsgpack.unpack(ARGV[4]))
local slots = ARGV[5]

local expiry = call('ZSCORE', 'leases:' .. lane, lease)
if not expiry or tonumber(expiry) <= now then return { 'stale' } end
local token, hops, name, entry = string.match(lease, '^(%S+) (%d+) (%S+) (.+)$')

local seen
if same == 0 then
  level_of(target)
  local domain = open(name, lane)
  seen = open_seen(name, plan, domain.a, 1)
  if seen:has(slots, 0) then return { 'seen' } end
  if domain.a >= life_cap or not seen:room() then return { 'refused' } end
  if look == 1 then return { 'ok' } end
  seen:add(slots, 0)
  domain.a = domain.a + 1
  count('admitted', 1)
  count('done', 1)
  outcomes[outcome] = 1
  entry = target
elseif look == 1 then
  return { 'ok' }
end

local renewed = token .. ' ' .. (hops + 1) .. ' ' .. name .. ' ' .. entry
closed[lane] = { lease }
leased[lane] = { expiry, renewed }
commit()
if seen then seen:write() end
return { 'ok', renewed }
