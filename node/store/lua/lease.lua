-- lease: the best URL of each of many domains that are due, from the caller's lanes.
--
-- ARGV 1  now, ms
--      2  msgpack [tag, want, lease_ms, base_delay_ms, lanes, start, spool_floor]
--         tag: "fetcher.instance"; lanes: those the caller believes are its own;
--         start: which of them comes first (rotated by the caller, for fairness);
--         spool_floor: the spool's bound until one is measured
-- returns {now, reason, next_due, lane, delay_ms, lease, lane, delay_ms, lease, ...}
--         reason: '' or why nothing (more) is handed out: paused, stopping, pages_reached,
--         spool_full; next_due: ms when the next domain is due, -1 if none waits
--
-- On the way it reaps a few expired leases and brings back URLs whose own time has come.
-- I3: a domain last due before `epoch` (an unclean start) waits until epoch + its delay.

local REAP, RETURN = 4, 16   -- per lane and call

local now = clock(ARGV[1])
local tag, want, lease_ms, base_delay, lanes, start, spool_floor = unpack(cmsgpack.unpack(ARGV[2]))

local control = redis.call('HMGET', 'control', 'pause', 'stop', 'pages_max', 'spool_max')
local totals = redis.call('HMGET', 'ledger', 'leased', 'spooled', 'pages')
local leased, spooled, pages = number(totals[1], 0), number(totals[2], 0), number(totals[3], 0)
local reason = ''
local room = want
local spool_left = number(control[4], spool_floor) - leased - spooled
if spool_left < room then room, reason = spool_left, 'spool_full' end
if control[3] then
  local left = tonumber(control[3]) - leased - pages
  if left < room then room, reason = left, 'pages_reached' end
end
if control[2] then room, reason = 0, 'stopping' end
if control[1] then room, reason = 0, 'paused' end
if room >= want then reason = '' end

local epoch = number(redis.call('GET', 'epoch'), 0)
local owners = #lanes > 0 and redis.call('HMGET', 'lanes', unpack(lanes)) or {}
local mine = {}
for i = 1, #lanes do
  local at = (start + i - 1) % #lanes + 1
  if owners[at] == tag then mine[#mine + 1] = lanes[at] end
end

local function take(lane, domain, due)
  local key = 'd:' .. domain
  local d = redis.call('HMGET', key, 'q', 'f', 'w', 'm', 'g')
  local queued, leases = number(d[1], 0), number(d[2], 0)
  local delay = delay_of(base_delay, d[4], d[5])
  if due < epoch and now < epoch + delay then
    redis.call('HSET', key, 'due', string.format('%.0f', epoch + delay))
    redis.call('ZADD', 'ready:' .. lane, epoch + delay, domain)
    return {}
  end
  local width = width_of(base_delay, d[3])
  local out = {}
  local level = 0
  while queued > 0 and leases < width and room > 0 and level < LEVELS do
    local entry = redis.call('LPOP', 'q:' .. level .. ':' .. domain)
    if entry then
      local serial = redis.call('INCR', 'serial')
      local member = string.format('%s.%.0f 0 %s %s', tag, serial, domain, entry)
      redis.call('ZADD', 'leases:' .. lane, now + lease_ms, member)
      queued, leases, room = queued - 1, leases + 1, room - 1
      out[#out + 1] = member
    else
      level = level + 1
    end
  end
  redis.call('HSET', key, 'q', queued, 'f', leases)
  place(lane, domain, queued, leases, width, due)
  count('queued', -#out)
  count('leased', #out)
  return out, delay
end

-- A URL of `later` whose time has come goes to the front of its queue.
local function bring_back(lane, member)
  redis.call('ZREM', 'later:' .. lane, member)
  local domain, entry = string.match(member, '^(%S+) (.+)$')
  local key = 'd:' .. domain
  local d = redis.call('HMGET', key, 'q', 'l', 'f', 'w', 'due', 'gone')
  local queued, later = number(d[1], 0), number(d[2], 0) - 1
  if d[6] then
    count('queued', -1)
    count('drop:dead_host', 1)
  else
    to_front(domain, entry)
    queued = queued + 1
  end
  redis.call('HSET', key, 'q', queued, 'l', later)
  place(lane, domain, queued, number(d[3], 0), width_of(base_delay, d[4]), number(d[5], now))
end

local out = {}
for i, lane in ipairs(mine) do
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', 'leases:' .. lane, '-inf', now, 'LIMIT', 0, REAP)) do
    reap(lane, member, now, base_delay)
  end
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', 'later:' .. lane, '-inf', now, 'LIMIT', 0, RETURN)) do
    bring_back(lane, member)
  end
  if room > 0 then
    local share = math.ceil(room / (#mine - i + 1))
    local due = redis.call('ZRANGEBYSCORE', 'ready:' .. lane, '-inf', now, 'WITHSCORES', 'LIMIT', 0, share)
    for k = 1, #due, 2 do
      if room <= 0 then break end
      local members, delay = take(lane, due[k], tonumber(due[k + 1]))
      for _, member in ipairs(members) do
        out[#out + 1] = lane
        out[#out + 1] = delay
        out[#out + 1] = member
      end
    end
  end
end

local next_due = -1
if room > 0 then
  for _, lane in ipairs(mine) do
    for _, name in ipairs({ 'ready:', 'later:' }) do
      local first = redis.call('ZRANGE', name .. lane, 0, 0, 'WITHSCORES')
      if first[2] and (next_due < 0 or tonumber(first[2]) < next_due) then
        next_due = tonumber(first[2])
      end
    end
  end
end

if #out > 0 then redis.call('HSET', 'ledger', 'last_lease', string.format('%.0f', now)) end
close_ledger()
return { now, reason, math.ceil(next_due), unpack(out) }
