-- Prelude of every verb: the clock, the counters, the place of a domain in `ready`.
-- Redis is private to the node, so verbs build key names from their data (docs/decisions).
--
-- d:{domain} fields  q queued in lists · l waiting in `later` · f leases out · a admitted in life
--                    due next visit (ms) · g adapted delay (ms) · m Crawl-delay (ms) · w width
--                    x unreachable in a row · t retry tokens · s seen layers · n URLs in the newest
--                    gone 'retired' once the domain was given up
-- queue entry        level, depth, state (one character each, 48 + value), then the URL
-- state              tries (0-3) + 4 * reaped (0-3) + 16 * bare
-- lease              "token hops domain entry" in leases:{lane}, scored by its expiry (ms)

local LEVELS = 8

-- The greatest time any caller has shown; a stale caller or a clock set back can't shorten a gap.
local function clock(argument)
  local now = tonumber(argument)
  local stored = tonumber(redis.call('GET', 'clock') or 0)
  if stored > now then return stored end
  if now > stored then redis.call('SET', 'clock', string.format('%.0f', now)) end
  return now
end

local ledger = {}

local function count(name, by)
  ledger[name] = (ledger[name] or 0) + by
end

-- Writes what `count` gathered. Called once, last.
local function close_ledger()
  for name, by in pairs(ledger) do
    if by ~= 0 then redis.call('HINCRBY', 'ledger', name, by) end
  end
end

local function number(value, default)
  return tonumber(value or nil) or default
end

local function level_of(entry)
  return string.byte(entry, 1) - 48
end

-- I2: a domain is in `ready` iff it has queued URLs and free width.
local function place(lane, domain, queued, leases, width, due)
  if queued > 0 and leases < width then
    redis.call('ZADD', 'ready:' .. lane, due, domain)
  else
    redis.call('ZREM', 'ready:' .. lane, domain)
  end
end

-- With a delay one visit at a time; without, the adapted width.
local function width_of(base_delay, stored)
  if base_delay > 0 then return 1 end
  return math.floor(number(stored, 4))
end

-- The delay in force: the adapted one, never under the base and the site's own Crawl-delay.
local function delay_of(base_delay, crawl_delay, adapted)
  return math.max(base_delay, number(crawl_delay, 0), number(adapted, 0))
end

-- Puts a URL back at the front of its level.
local function to_front(domain, entry)
  redis.call('LPUSH', 'q:' .. level_of(entry) .. ':' .. domain, entry)
end

-- Closes a lease nobody settled: the URL returns to the front, the domain owes what the visit
-- could have sent (the page and each hop it had registered). At the fourth time the URL itself
-- is taken to be the cause and dropped.
local function reap(lane, member, now, base_delay)
  if redis.call('ZREM', 'leases:' .. lane, member) == 0 then return end
  local hops, domain, entry = string.match(member, '^%S+ (%d+) (%S+) (.+)$')
  local key = 'd:' .. domain
  local d = redis.call('HMGET', key, 'q', 'f', 'w', 'due', 'g', 'm', 'gone')
  local queued, leases = number(d[1], 0), number(d[2], 0) - 1
  local delay = delay_of(base_delay, d[6], d[5])
  local due = math.max(number(d[4], 0), now + delay * (1 + tonumber(hops)))
  local state = string.byte(entry, 3) - 48
  local reaped = math.floor(state / 4) % 4
  count('leased', -1)
  count('reaped', 1)
  if d[7] then
    count('drop:dead_host', 1)
  elseif reaped == 3 then
    count('drop:poison', 1)
  else
    entry = string.sub(entry, 1, 2) .. string.char(48 + state + 4) .. string.sub(entry, 4)
    to_front(domain, entry)
    queued = queued + 1
    count('queued', 1)
  end
  redis.call('HSET', key, 'q', queued, 'f', leases, 'due', string.format('%.0f', due))
  place(lane, domain, queued, leases, width_of(base_delay, d[3]), due)
end
