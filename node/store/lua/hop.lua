-- hop: one redirect hop within the domain, registered before its request is sent.
--
-- ARGV 1  now, ms
--      2  lane
--      3  lease
--      4  msgpack [target entry, plan, life_cap, outcome, same]
--         outcome: what the source ended as; same: 1 if the target's URL is one this chain has already been at (cookie walls)
--      5  the target's filter slots
-- returns {'stale'}            the lease is not ours: send nothing
--         {'seen'}             the target is known: the visit ends here
--         {'refused'}          the domain's budget is spent: the visit ends here
--         {'ok', new lease}    the target is admitted and leased in place of its source,
--                              which is done; the lease carries one hop more
--
-- So each hop is paid for even if the fetcher dies, and no target is lost or fetched twice.

local now = clock(ARGV[1])
local lane, member = ARGV[2], ARGV[3]
local target, plan, life_cap, outcome, same = unpack(cmsgpack.unpack(ARGV[4]))
local slots = ARGV[5]

local expiry = redis.call('ZSCORE', 'leases:' .. lane, member)
if not expiry or tonumber(expiry) <= now then return { 'stale' } end
local token, hops, domain, entry = string.match(member, '^(%S+) (%d+) (%S+) (.+)$')
local key = 'd:' .. domain

if same == 0 then
  local d = redis.call('HMGET', key, 'a', 's', 'n')
  local life = number(d[1], 0)
  local seen = open_seen(domain, plan, number(d[2], 0), number(d[3], 0))
  if seen:has(slots, 0) then return { 'seen' } end
  if life >= life_cap or not seen:room() then return { 'refused' } end
  redis.call('ZREM', 'leases:' .. lane, member)
  seen:add(slots, 0)
  redis.call('HSET', key, 'a', life + 1, 's', seen.layers, 'n', seen.newest)
  redis.call('HINCRBY', 'outcomes', outcome, 1)
  count('admitted', 1)
  count('done', 1)
  entry = target
else
  redis.call('ZREM', 'leases:' .. lane, member)
end

local renewed = string.format('%s %d %s %s', token, tonumber(hops) + 1, domain, entry)
redis.call('ZADD', 'leases:' .. lane, expiry, renewed)
close_ledger()
return { 'ok', renewed }
