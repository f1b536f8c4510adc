-- beat: a fetcher shows that it lives, and learns which lanes are its own.
--
-- ARGV 1  now, ms
--      2  fetcher number
--      3  instance (new at each start of the process)
--      4  adopt_ms: a fetcher silent this long has lost its lanes
--      5  base_delay_ms
--      6  '1' to leave: give up all lanes and go
-- returns {now, lane, lane, ...}: the lanes to lease from
--
-- Each living fetcher serves its share of the 64 lanes. A lane changes hands only when its owner
-- is silent, restarted or gone, or when the owner has more than its share and the lane holds no
-- lease. At its first beat an instance returns the leases of its earlier selves, wherever they
-- are: others may have adopted their lanes meanwhile.

local LANES = 64
local now = clock(ARGV[1])
local fetcher, instance = ARGV[2], ARGV[3]
local adopt, base_delay = tonumber(ARGV[4]), tonumber(ARGV[5])
local tag = fetcher .. '.' .. instance

local owners = {}
local flat = redis.call('HGETALL', 'lanes')
for i = 1, #flat, 2 do owners[tonumber(flat[i])] = flat[i + 1] end

if ARGV[6] == '1' then
  for lane = 0, LANES - 1 do
    if owners[lane] == tag then redis.call('HDEL', 'lanes', lane) end
  end
  redis.call('HDEL', 'beats', fetcher)
  return { now }
end

local former = '^' .. fetcher .. '%.'
local last_beat = redis.call('HGET', 'beats', fetcher)
if not last_beat or string.match(last_beat, '^%S+') ~= instance then
  for lane = 0, LANES - 1 do
    for _, member in ipairs(redis.call('ZRANGE', 'leases:' .. lane, 0, -1)) do
      if string.find(member, former) and string.sub(member, 1, #tag + 1) ~= tag .. '.' then
        reap(lane, member, now, base_delay)
      end
    end
  end
end

redis.call('HSET', 'beats', fetcher, instance .. ' ' .. string.format('%.0f', now))
local alive, living = {}, 0
local beats = redis.call('HGETALL', 'beats')
for i = 1, #beats, 2 do
  local its, last = string.match(beats[i + 1], '^(%S+) (%d+)$')
  if tonumber(last) >= now - adopt then
    alive[beats[i] .. '.' .. its] = true
    living = living + 1
  elseif tonumber(last) < now - 60 * adopt then
    redis.call('HDEL', 'beats', beats[i])
  end
end

local share = math.ceil(LANES / living)
local mine = {}
for lane = 0, LANES - 1 do
  if owners[lane] == tag then mine[#mine + 1] = lane end
end
for k = #mine, share + 1, -1 do   -- more than our share: lease no more from it, then give it up
  local lane = mine[k]
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', 'leases:' .. lane, '-inf', now, 'LIMIT', 0, 50)) do
    reap(lane, member, now, base_delay)
  end
  if redis.call('ZCARD', 'leases:' .. lane) == 0 then redis.call('HDEL', 'lanes', lane) end
  mine[k] = nil
end

for lane = 0, LANES - 1 do
  local owner = owners[lane]
  local our_former = owner and owner ~= tag and string.find(owner, former)
  if our_former or (#mine < share and owner ~= tag and not (owner and alive[owner])) then
    redis.call('HSET', 'lanes', lane, tag)
    mine[#mine + 1] = lane
  end
end
close_ledger()
table.sort(mine)
return { now, unpack(mine) }
