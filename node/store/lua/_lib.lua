-- Prelude of every verb. A verb reads and decides first, and writes at its end, in `commit`; so a
-- bad argument or a key of the wrong type stops it before anything has changed.
-- Redis is private to the node, so verbs build key names from their data (docs/decisions).
--
-- queue entry  level, depth, state (one character each, 48 + value), then the URL
-- state        tries (0-3) + 4 * reaped (0-3) + 16 * kind (rules/entry.py)
-- lease        "token hops domain entry" in leases:{lane}, scored by its expiry (ms);
--              token "fetcher.instance.serial"

local LEVELS, LANES = 8, 64
local LIST = {}   -- level -> what its lists' names begin with
for level = 0, LEVELS - 1 do LIST[level] = 'q:' .. level .. ':' end
local call = redis.call

local base_delay = 0   -- set by the verbs that place domains
local moved_clock      -- the clock's new value, if it moved
local time = 0         -- what it shows

-- The greatest time any caller has shown; a stale caller or a clock set back can't shorten a gap.
local function clock(argument)
  local now = tonumber(argument)
  if not (now and now >= 0 and now < 1e15) then   -- also NaN
    error('no time in ms: ' .. tostring(argument), 0)
  end
  now = math.floor(now)
  time = tonumber(call('GET', 'clock') or 0)
  if time < now then time, moved_clock = now, now end
  return time
end

-- What a caller says may rest on what this Redis had before it crashed: `run` is the one that the caller
-- met last, '' for any. The one in force is kept by `begin`.
local function same_redis(run)
  if run ~= '' and call('HGET', 'meta', 'run') ~= run then
    error('NEWREDIS another Redis, or a restarted one, than the caller has met', 0)
  end
end

local function number(value, default)
  return tonumber(value or nil) or default
end

local ledger, outcomes = {}, {}

local function count(name, by)
  ledger[name] = (ledger[name] or 0) + by
end

local function level_of(entry)
  local level = (string.byte(entry, 1) or 0) - 48
  if level < 0 or level >= LEVELS then error('no queue entry: ' .. entry, 0) end
  return level
end

-- A command with any number of arguments, in pieces that fit Lua's stack. Pairs stay together.
local function in_pieces(command, key, list)
  for first = 1, #list, 1000 do
    call(command, key, unpack(list, first, math.min(first + 999, #list)))
  end
end

-- Adds to the list under `key` in `lists`.
local function gather(lists, key, value)
  local list = lists[key]
  if list then
    list[#list + 1] = value
  else
    lists[key] = { value }
  end
end

-- Domains ------------------------------------------------------------------------------------

-- d:{domain}, 70 to 87 bytes; store/domain_record.py reads the same. The head is what most verbs need:
--   due next visit (ms) · q queued in lists · l waiting in `later` · a admitted in life
--   g slowed to this delay (ms), 0 = not slowed · m Crawl-delay (ms), -1 until robots.txt was read
--   f leases out · w width, thousandths · gone 1 once the domain was given up
--   b none of its lists below this level holds a URL
-- The tail, for verbs that open it whole:
--   x unreachable in a row · t retry tokens, tenths · failed the limit that failed: delay (ms), or width · grade how often · run good visits since it was
--   slowed down, at slowed_at (s), when leases up to mark were out · slowdowns how often in its life
--   ttfb, usual time to first byte of late and in general (256ths of a ms), of so many answers
-- Then its place (_address.lua), if known; and while it waits for its address, its turn there (ms).
local HEAD, HEAD_BYTES, F_AT = '<di4i4i4i4i4i2i2BB', 34, 29
local A_AT = 17
local TAIL, WHOLE_BYTES = '<i2i2i4i4i4di4i4BBI2', 70
local NEW = struct.pack(HEAD, 0, 0, 0, 0, 0, -1, 0, 4000, 0, LEVELS)
  .. struct.pack(TAIL, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0)
local domains = {}

-- One visit at a time where there is a delay, ours or the site's; else the adapted width.
local function width_of(domain)
  if base_delay > 0 or domain.m > 0 then return 1 end
  return math.floor(domain.w / 1000)
end

-- The delay in force: the adapted one, never under the base and the site's own Crawl-delay.
local function delay_of(domain)
  return math.max(base_delay, domain.m, domain.g)
end

-- I2: a domain is in `ready`, at its due time or its address's turn, iff it has queued URLs and free width.
local function ready_at(domain)
  if domain.q <= 0 or domain.f >= width_of(domain) then return false end
  local turn = domain.turn
  return turn and turn > domain.due and turn or domain.due
end

-- Does it wait for its address? (Counted; it may be that its turn has come.)
local function awaits_turn(domain)
  return domain.turn ~= nil and domain.turn > 0 and domain.q > 0
end

local function keep(domain)
  local packed = domain.packed
  if packed then
    if #packed > WHOLE_BYTES then
      place_in(domain, packed, WHOLE_BYTES)
      if domain.turn then domain.awaited_turn = awaits_turn(domain) end
    end
    domain.was_ready_at = ready_at(domain)
  end
  domains[domain.name] = domain
  return domain
end

-- How many URLs a domain admitted in its life, for one that may not have to be opened; and what `open` would
-- read.
local function admitted_by(name)
  local packed = call('GET', 'd:' .. name)
  return packed and struct.unpack('<i4', packed, A_AT) or 0, packed
end

-- A domain's state, read once; change its fields and `commit` writes it. (16 fields: a table that has to grow
-- for one more costs more than reading them. So `turn` is nil where there was none.) packed: as it was read.
local function open(name, lane, packed)
  local domain = domains[name]
  if domain then return domain end
  if packed == nil then packed = call('GET', 'd:' .. name) end
  local state = packed or NEW
  local due, q, l, a, g, m, f, w, gone, b = struct.unpack(HEAD, state)
  domain = { name = name, lane = lane, packed = packed, due = due, q = q, l = l, a = a, g = g, m = m, f = f,
    w = w, gone = gone, b = b, tail = string.sub(state, HEAD_BYTES + 1, WHOLE_BYTES), was_ready_at = false,
    place = '' }
  return keep(domain)
end

-- The same with the fields of its tail, for a verb that opens all its domains so.
local function open_whole(name, lane)
  local domain = domains[name]
  if domain then return domain end
  local packed = call('GET', 'd:' .. name)
  local state = packed or NEW
  local due, q, l, a, g, m, f, w, gone, b = struct.unpack(HEAD, state)
  local x, t, failed, run, slowed_at, mark, ttfb, usual, grade, answers, slowdowns =
    struct.unpack(TAIL, state, HEAD_BYTES + 1)
  domain = { name = name, lane = lane, packed = packed, due = due, q = q, l = l, a = a, g = g, m = m, f = f,
    w = w, gone = gone, b = b, was_ready_at = false, x = x, t = t, failed = failed, run = run,
    slowed_at = slowed_at, mark = mark, ttfb = ttfb, usual = usual, grade = grade, answers = answers,
    slowdowns = slowdowns, place = '' }
  return keep(domain)
end

-- What is to be written ----------------------------------------------------------------------

local closed, leased = {}, {}      -- lane -> leases; lane -> expiry, lease, ...
local queued = {}                  -- command, list, entry, ...
local emptied = {}                 -- lists to delete, of domains given up

-- command: LPUSH for the front of its level, RPUSH for the end
local function enqueue(domain, entry, command)
  local level = level_of(entry)
  local list = LIST[level] .. domain.name
  call('LLEN', list)   -- raises now if it is no list
  if level < domain.b then domain.b = level end
  queued[#queued + 1] = command
  queued[#queued + 1] = list
  queued[#queued + 1] = entry
  domain.q = domain.q + 1
  count('queued', 1)
end

-- Closes a lease nobody settled: the URL returns to the front, the domain owes what the visit
-- could have sent (the page and each hop it had registered). At the fourth time the URL itself
-- is taken to be the cause and dropped.
local function reap(lane, lease, now)
  local hops, name, entry = string.match(lease, '^%S+ (%d+) (%S+) (.+)$')
  local domain = open(name, lane)
  local state = string.byte(entry, 3) - 48
  gather(closed, lane, lease)
  count('leased', -1)
  count('reaped', 1)
  domain.f = domain.f - 1
  domain.due = math.max(domain.due, now + delay_of(domain) * (1 + hops))
  if domain.gone == 1 then
    count('drop:dead_host', 1)
  elseif math.floor(state / 4) % 4 == 3 then
    count('drop:poison', 1)
  else
    enqueue(domain, string.sub(entry, 1, 2) .. string.char(48 + state + 4) .. string.sub(entry, 4), 'LPUSH')
  end
end

-- Opens the way for all that follows. Redis at `maxmemory` refuses a script's commands that need
-- memory, unless the script has written already; what takes URLs out must not be stopped by that.
local function pass_at_maxmemory()
  call('DEL', 'gate')   -- never exists
end

local function pack(domain)
  local tail = domain.tail or struct.pack(TAIL, domain.x, domain.t, domain.failed, domain.run,
    domain.slowed_at, domain.mark, domain.ttfb, domain.usual, domain.grade, domain.answers, domain.slowdowns)
  local packed = struct.pack(HEAD, domain.due, domain.q, domain.l, domain.a, domain.g, domain.m, domain.f,
    domain.w, domain.gone, domain.b) .. tail .. domain.place
  return domain.turn and domain.turn > 0 and packed .. struct.pack('<d', domain.turn) or packed
end

-- Writes everything, leases that end first, counters last, and forgets it.
local function commit()
  pass_at_maxmemory()
  for lane, leases in pairs(closed) do in_pieces('ZREM', 'leases:' .. lane, leases) end
  for lane, list in pairs(leased) do in_pieces('ZADD', 'leases:' .. lane, list) end
  for i = 1, #queued, 3 do call(queued[i], queued[i + 1], queued[i + 2]) end
  for i = 1, #emptied do call('DEL', emptied[i]) end
  local enter, quit, states = {}, {}, {}
  for name, domain in pairs(domains) do
    local packed = pack(domain)
    if packed ~= domain.packed then
      states[#states + 1] = 'd:' .. name
      states[#states + 1] = packed
    end
    if domain.place ~= '' or domain.has_moved then follow(domain, F_AT, WHOLE_BYTES) end
    if domain.turn then
      local awaits, awaited = awaits_turn(domain), domain.awaited_turn or false
      if awaits ~= awaited then count('awaiting_address', awaits and 1 or -1) end
    end
    local at = ready_at(domain)
    if at ~= domain.was_ready_at then
      if at then
        local list = enter[domain.lane] or {}
        enter[domain.lane] = list
        list[#list + 1] = at % 1 == 0 and string.format('%d', at) or at   -- %d is the fast way
        list[#list + 1] = name
      else
        gather(quit, domain.lane, name)
      end
    end
  end
  write_addresses(states, time)
  for first = 1, #states, 1000 do
    call('MSET', unpack(states, first, math.min(first + 999, #states)))
  end
  for lane, list in pairs(enter) do in_pieces('ZADD', 'ready:' .. lane, list) end
  for lane, list in pairs(quit) do in_pieces('ZREM', 'ready:' .. lane, list) end
  for name, by in pairs(ledger) do
    if by ~= 0 then call('HINCRBY', 'ledger', name, by) end
  end
  for name, by in pairs(outcomes) do call('HINCRBY', 'outcomes', name, by) end
  if moved_clock then call('SET', 'clock', moved_clock) end
  ledger, outcomes, domains = {}, {}, {}
  closed, leased, queued, emptied, moved_clock = {}, {}, {}, {}, nil
end
