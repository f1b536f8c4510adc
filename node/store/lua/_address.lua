-- Prelude of every verb: what one IP address bears. The laws of rules/addresses.py; names and comments are
-- theirs, and a model test holds the two together.
--
-- A domain's `place`: '' not known, or the class of its limit (one byte, 0 = none) and its address (4 bytes;
-- of IPv6 the 8 of its /64). ip:{address}: the last turn given, when its next visit may begin (ms), visits
-- under way: the `f` of all domains there together. It is kept while that means something.

local ADDRESS = '<ddi4'
local SLACK_MS, LOOK_MS = 250, 50
local LINGER_MS = 60000   -- how long Redis keeps what means nothing any more

local addresses = {}   -- packed address -> its state

-- Sets a domain's place, and its turn if it has one, from what follows the first `from` bytes of its state.
local function place_in(domain, packed, from)
  if #packed - from > 9 then
    domain.turn = struct.unpack('<d', packed, #packed - 7)
    domain.place = string.sub(packed, from + 1, -9)
  else
    domain.place = string.sub(packed, from + 1)
  end
end

-- The state of the address at a place, read once; nil where nothing is counted.
local function address_at(place)
  if #place < 2 or string.byte(place) == 0 then return nil end
  local ip = string.sub(place, 2)
  local address = addresses[ip]
  if not address then
    local key
    if #ip == 4 then
      key = string.format('ip:%d.%d.%d.%d', string.byte(ip, 1, 4))
    else
      key = string.format('ip:%02x%02x:%02x%02x:%02x%02x:%02x%02x', string.byte(ip, 1, 8))
    end
    local packed = redis.call('GET', key)
    address = { key = key, packed = packed, last_turn = 0, next = 0, out = 0, begun = 0 }
    if packed then address.last_turn, address.next, address.out = struct.unpack(ADDRESS, packed) end
    addresses[ip] = address
  end
  return address
end

-- Visits under way follow each domain's `f` and place, whatever changed those. Its state as it was tells by
-- how much: `f` stood at byte `f_at`, its place behind the first `from`.
local function follow(domain, f_at, from)
  local new = address_at(domain.place)
  if not (new or domain.has_moved) then return end
  local old, was_f = new, 0
  if domain.packed then
    was_f = struct.unpack('<i2', domain.packed, f_at)
    if domain.has_moved then
      local was = {}
      place_in(was, domain.packed, from)
      old = address_at(was.place)
    end
  end
  if old then old.out = old.out - was_f end
  if new then new.out = new.out + domain.f end
end

-- limit: {interval_ms, at_once}, 0 = none
local function allowance(address, limit, wanted, now, has_turn)
  local interval, at_once = limit[1], limit[2]
  if address.last_turn > now then wanted = math.min(wanted, has_turn and 1 or 0) end
  if at_once > 0 then wanted = math.min(wanted, at_once - address.out - address.begun) end
  if interval > 0 then
    local ahead = now + (has_turn and SLACK_MS or 0) - math.max(address.next, now - SLACK_MS)
    wanted = math.min(wanted, math.floor(ahead / interval) + 1)
  end
  return math.max(0, wanted)
end

-- So many visits begin in this call; they are under way once it is written.
local function visited(address, limit, visits, now)
  address.begun = address.begun + visits
  if limit[1] > 0 then address.next = math.max(address.next, now - SLACK_MS) + visits * limit[1] end
end

local function next_turn(address, limit, now)
  local spacing = limit[1] > 0 and limit[1] or LOOK_MS
  address.last_turn = math.max(math.max(address.last_turn, now) + spacing, address.next)
  return address.last_turn
end

-- Appends what is to be written to `states` (key, value, ...); sets or deletes the rest.
local function write_addresses(states, now)
  local gone = {}
  for _, address in pairs(addresses) do
    local packed = struct.pack(ADDRESS, address.last_turn, address.next, address.out)
    local ahead = math.max(address.last_turn, address.next + SLACK_MS) - now
    if address.out > 0 then
      if packed ~= address.packed then
        states[#states + 1] = address.key
        states[#states + 1] = packed
      end
    elseif ahead > 0 then
      if packed ~= address.packed then
        redis.call('SET', address.key, packed, 'PX', math.ceil(ahead) + LINGER_MS)
      end
    elseif address.packed then
      gone[#gone + 1] = address.key
    end
  end
  for first = 1, #gone, 1000 do
    redis.call('DEL', unpack(gone, first, math.min(first + 999, #gone)))
  end
  addresses = {}
end
