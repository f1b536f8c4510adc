-- lease: the best URL of each of many domains that are due, from the caller's lanes.
--
-- ARGV 1  now, ms
--      2  msgpack [tag, want, lease_ms, base_delay_ms, lanes, start, spool_floor, limits]
--         tag: "fetcher.instance"; lanes: those the caller believes are its own, as text (Lua
--         writes numbers slowly);
--         start: which of them comes first (rotated by the caller, for fairness);
--         spool_floor: the spool's bound until one is measured
--         limits: [[interval_ms, at_once], ...] of addresses, by class (_address.lua)
-- returns {now, reason, next_due, known, lane, delay_ms, lease, lane, delay_ms, lease, ...}
--         reason: '' or why nothing (more) is handed out: paused, stopping, pages_reached,
--         spool_full; next_due: ms when the next domain is due, -1 if none waits;
--         known: one character per lease: 1 if its domain's address is known, else 0
--
-- On the way it reaps a few expired leases and brings back URLs whose own time has come.
-- I3: a domain last due before `epoch` (an unclean start) waits until epoch + its delay.

local RETURN = 16              -- URLs of `later` brought back, per lane and call
local REAP, REAP_LANES = 16, 2 -- leases reaped, per lane; lanes looked at for that, per call
local LEAST_SHARE = 16         -- domains looked at in a lane before the next one's turn

local now = clock(ARGV[1])
local tag, want, lease_ms, base, lanes, start, spool_floor, limits = unpack(cmsgpack.unpack(ARGV[2]))
base_delay = base
local now_text = string.format('%d', now)

local mine, laters = {}, {}
if #lanes > 0 then
  local owners = call('HMGET', 'lanes', unpack(lanes))
  for i = 0, #lanes - 1 do
    local at = (start + i) % #lanes + 1
    if owners[at] == tag then
      mine[#mine + 1] = lanes[at]
      laters[#laters + 1] = 'later:' .. lanes[at]
    end
  end
end

-- what came to its end -------------------------------------------------------------------------

-- A URL of `later` whose time has come goes to the front of its queue.
local returned = {}
local function bring_back(lane, member)
  local name, entry = string.match(member, '^(%S+) (.+)$')
  local domain = open(name, lane)
  gather(returned, lane, member)
  domain.l = domain.l - 1
  count('queued', -1)
  if domain.gone == 1 then
    count('drop:dead_host', 1)
  else
    enqueue(domain, entry, 'LPUSH')
  end
end

local worked = false
for i = 1, math.min(REAP_LANES, #mine) do
  local expired = call('ZRANGEBYSCORE', 'leases:' .. mine[i], '-inf', now_text, 'LIMIT', '0', REAP)
  for k = 1, #expired do reap(mine[i], expired[k], now) end
  worked = worked or #expired > 0
end
local some_wait = #mine > 0 and call('EXISTS', unpack(laters)) > 0
if some_wait then
  for i, lane in ipairs(mine) do
    local due = call('ZRANGEBYSCORE', laters[i], '-inf', now_text, 'LIMIT', '0', RETURN)
    for k = 1, #due do bring_back(lane, due[k]) end
    worked = worked or #due > 0
  end
end
if worked then
  commit()
  for lane, members in pairs(returned) do in_pieces('ZREM', 'later:' .. lane, members) end
end

-- how much may be handed out -------------------------------------------------------------------

local control = call('HMGET', 'control', 'pause', 'stop', 'pages_max', 'spool_max')
local totals = call('HMGET', 'ledger', 'leased', 'spooled', 'pages')
local out, spooled, pages = tonumber(totals[1] or 0), tonumber(totals[2] or 0), tonumber(totals[3] or 0)
local room, reason = want, ''
local spool_left = tonumber(control[4] or spool_floor) - out - spooled
if spool_left < room then room, reason = spool_left, 'spool_full' end
if control[3] and tonumber(control[3]) - out - pages < room then
  room, reason = tonumber(control[3]) - out - pages, 'pages_reached'
end
if control[2] then room, reason = 0, 'stopping' end
if control[1] then room, reason = 0, 'paused' end

-- which URLs -----------------------------------------------------------------------------------

local epoch = tonumber(call('GET', 'epoch') or 0)
local looks = 4 * want + #mine   -- domains looked at by this call, so that it ends soon
local next_due = -1
local pops = {}                  -- domain, list, how many, ...

local function wait_until(due)
  if next_due < 0 or due < next_due then next_due = due end
end

-- Plans to take a domain's best URLs, as many as it has width for and its address bears.
local function take(domain)
  local due, delay = domain.due, delay_of(domain)
  if due < epoch and now < epoch + delay then
    domain.due = epoch + delay
    wait_until(epoch + delay)
    return
  end
  local wanted = math.min(width_of(domain) - domain.f, domain.q, room)
  local may, address = wanted, address_at(domain.place)
  local limit = address and (limits[string.byte(domain.place)] or limits[1])
  if limit then may = allowance(address, limit, wanted, now, (domain.turn or 0) > 0) end
  local free, level = may, domain.b
  while free > 0 and level < LEVELS do
    local list = LIST[level] .. domain.name
    local here = math.min(free, call('LLEN', list))
    if here > 0 then
      pops[#pops + 1] = domain
      pops[#pops + 1] = list
      pops[#pops + 1] = here
      free, room = free - here, room - here
      domain.q = domain.q - here
      domain.f = domain.f + here
      domain.b = level
    end
    level = level + 1
  end
  if limit and may > free then visited(address, limit, may - free, now) end
  if domain.turn then domain.turn = 0 end
  if may < wanted then
    domain.turn = next_turn(address, limit, now)
    count('address_waits', 1)
    wait_until(domain.turn)
  end
end

-- One lane's turn. Answers whether it has more that is due.
local looked = {}   -- lane -> how many of its domains were looked at
local function serve(lane, share)
  local ready, from = 'ready:' .. lane, looked[lane] or 0
  if from == 0 then
    local first = call('ZRANGE', ready, '0', '0', 'WITHSCORES')
    if not first[1] then return false end
    local due = tonumber(first[2])
    if due > now then
      wait_until(due)
      return false
    end
  end
  local names = call('ZRANGEBYSCORE', ready, '-inf', now_text, 'LIMIT', from, share)
  local n = 0
  while n < #names and room > 0 do
    n = n + 1
    take(open(names[n], lane))
  end
  looks = looks - n
  looked[lane] = from + n
  if n == share then return true end
  if room > 0 then
    local following = call('ZRANGE', ready, from + n, from + n, 'WITHSCORES')
    if following[2] then wait_until(tonumber(following[2])) end
  end
  return false
end

local turn = mine
while room > 0 and looks > 0 and #turn > 0 do
  local again = {}
  for i, lane in ipairs(turn) do
    if room <= 0 or looks <= 0 then break end
    local share = math.max(LEAST_SHARE, math.ceil(room / (#turn - i + 1)))
    if serve(lane, math.min(looks, share)) then again[#again + 1] = lane end
  end
  turn = again
end
if room > 0 and #turn > 0 then wait_until(now) end   -- enough looked at for one call

if room > 0 then
  reason = ''
  if some_wait then
    for i = 1, #laters do
      local first = call('ZRANGE', laters[i], '0', '0', 'WITHSCORES')
      if first[2] then wait_until(tonumber(first[2])) end
    end
  end
end

-- and hand them out ----------------------------------------------------------------------------

local answer = { now, reason, math.ceil(next_due), '' }
local known = {}
if #pops > 0 then
  pass_at_maxmemory()
  local serial = call('INCRBY', 'serial', want) - want
  local expiry = string.format('%d', now + lease_ms)
  for i = 1, #pops, 3 do
    local domain, list, many = pops[i], pops[i + 1], pops[i + 2]
    local lane, delay = domain.lane, delay_of(domain)
    local here = leased[lane]
    if not here then
      here = {}
      leased[lane] = here
    end
    for _ = 1, many do
      serial = serial + 1
      local lease = tag .. '.' .. serial .. ' 0 ' .. domain.name .. ' ' .. call('LPOP', list)
      here[#here + 1] = expiry
      here[#here + 1] = lease
      answer[#answer + 1] = lane
      answer[#answer + 1] = delay
      answer[#answer + 1] = lease
      known[#known + 1] = domain.place == '' and '0' or '1'
    end
  end
  local handed = #known
  answer[4] = table.concat(known)
  count('queued', -handed)
  count('leased', handed)
  call('HSET', 'ledger', 'last_lease', now_text)
end
commit()
return answer
