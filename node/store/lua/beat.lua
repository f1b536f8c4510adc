-- beat: a fetcher shows that it lives, and learns which lanes are its own.
--
-- ARGV 1  now, ms
--      2  fetcher number
--      3  instance (new at each start of the process; no dots, no spaces)
--      4  adopt_ms: a fetcher silent this long has lost its lanes
--      5  base_delay_ms
--      6  '1' to leave: give up all lanes and go
-- returns {now, lane, lane, ...}: the lanes to lease from
--
-- Each living fetcher serves its share of the 64 lanes; shares differ by one at most. A lane changes
-- hands only when its owner is silent, restarted or gone, or when the owner has more than its share
-- and the lane holds no lease. At its first beats an instance returns the leases of its earlier
-- selves, wherever they are: others may have adopted their lanes meanwhile. (They are certainly
-- dead: a process number is locked.)
-- beats: fetcher -> "instance last_beat", with " more" behind it until all those leases returned.

local REAP = 500   -- most leases returned by one beat, so that nobody waits long for it

local now = clock(ARGV[1])
local fetcher, instance = ARGV[2], ARGV[3]
local adopt = tonumber(ARGV[4])
base_delay = tonumber(ARGV[5])
local tag = fetcher .. '.' .. instance

local owners = {}
local flat = call('HGETALL', 'lanes')
for i = 1, #flat, 2 do owners[tonumber(flat[i])] = flat[i + 1] end

if ARGV[6] == '1' then
  commit()
  for lane = 0, LANES - 1 do
    if owners[lane] == tag then call('HDEL', 'lanes', lane) end
  end
  call('HDEL', 'beats', fetcher)
  return { now }
end

-- Who lives, and the place of this fetcher among them.
local instances, living, silent = { [fetcher] = instance }, { tonumber(fetcher) }, {}
local settled_in = false   -- are no leases of earlier selves left?
flat = call('HGETALL', 'beats')
for i = 1, #flat, 2 do
  local its, last, more = string.match(flat[i + 1], '^(%S+) (%d+)(.*)$')
  local silence = now - tonumber(last)
  if flat[i] == fetcher then
    settled_in = its == instance and more == ''
  elseif silence <= adopt then
    living[#living + 1] = tonumber(flat[i])
    instances[flat[i]] = its
  elseif silence > 60 * adopt then
    silent[#silent + 1] = flat[i]
  end
end
table.sort(living)
local share = math.floor(LANES / #living)
for place = 1, LANES % #living do
  if living[place] == tonumber(fetcher) then share = share + 1 end
end

-- Returns leases of a lane, those that `wanted` names, while this beat may; answers how many others
-- there are, and whether all that were wanted returned.
local reaps = 0
local function clear(lane, wanted)
  local leases = call('ZRANGE', 'leases:' .. lane, 0, -1, 'WITHSCORES')
  local others, all = 0, true
  for i = 1, #leases, 2 do
    if not wanted(leases[i], tonumber(leases[i + 1])) then
      others = others + 1
    elseif reaps < REAP then
      reaps = reaps + 1
      reap(lane, leases[i], now)
    else
      all = false
    end
  end
  return others, all
end

if not settled_in then
  settled_in = true
  for lane = 0, LANES - 1 do
    local _, all = clear(lane, function(lease)
      local number, its = string.match(lease, '^(%d+)%.([^. ]+)')
      return number == fetcher and its ~= instance
    end)
    settled_in = settled_in and all
  end
  commit()
end

local mine, taken, given = {}, {}, {}
for lane = 0, LANES - 1 do
  if owners[lane] == tag then mine[#mine + 1] = lane end
end
for k = #mine, share + 1, -1 do   -- lease no more from a lane too many, then give it up
  local others, all = clear(mine[k], function(_, expiry) return expiry <= now end)
  if others == 0 and all then given[#given + 1] = mine[k] end
  mine[k] = nil
end
local function take(wanted)
  for lane = 0, LANES - 1 do
    local owner = owners[lane]
    if #mine < share and owner ~= tag and wanted(owner) then
      owners[lane] = tag
      taken[#taken + 1] = lane
      mine[#mine + 1] = lane
    end
  end
end
take(function(owner) return owner and string.match(owner, '^%d+') == fetcher end)   -- our former self's
take(function(owner)
  local number, its = string.match(owner or '', '^(%d+)%.(%S+)')
  return not number or instances[number] ~= its
end)

commit()
call('HSET', 'beats', fetcher, instance .. ' ' .. string.format('%d', now) .. (settled_in and '' or ' more'))
for _, number in ipairs(silent) do call('HDEL', 'beats', number) end
for _, lane in ipairs(given) do call('HDEL', 'lanes', lane) end
for _, lane in ipairs(taken) do call('HSET', 'lanes', lane, tag) end
table.sort(mine)
return { now, unpack(mine) }
