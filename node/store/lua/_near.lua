-- Prelude of offer: which of a domain's pages are nearly the same, and what follows. The law of
-- rules/similar.py; names and numbers are its own, and a test holds the two together.
--
-- near:{domain}  '<I2I2' pages compared, nearly the same; then up to KINDS fingerprints, '<I4I4' each, of
--                the kinds of page met last, the latest at the end

local KINDS, NEAR_BITS, LEAST, MOST = 16, 6, 8, 64

local function bits_of(x)
  local b, shift = bit.band, bit.rshift
  x = x - b(shift(x, 1), 0x55555555)
  x = b(x, 0x33333333) + b(shift(x, 2), 0x33333333)
  x = b(x + shift(x, 4), 0x0f0f0f0f)
  x = x + shift(x, 8)
  return b(x + shift(x, 16), 0x3f)
end

-- By how many levels a domain's URLs enter lower, and how many delays more it waits between visits.
local function lowered(known)
  if known.compared < LEAST then return 0 end
  local percent = 100 * known.near / known.compared
  return percent >= 90 and 3 or percent >= 75 and 2 or percent >= 50 and 1 or 0
end

local likenesses = {}   -- domain -> what is known of it; false = nothing
local NOTHING = { lowered = 0 }

-- Reads what is known of some domains at once.
local function recall(names)
  for first = 1, #names, 1000 do
    local last = math.min(first + 999, #names)
    local near_keys = {}
    for i = first, last do near_keys[#near_keys + 1] = 'near:' .. names[i] end
    for i, packed in ipairs(call('MGET', unpack(near_keys))) do
      local known = false
      if packed then
        known = { packed = packed }
        known.compared, known.near = struct.unpack('<I2I2', packed)
        known.lowered = lowered(known)
      end
      likenesses[names[first + i - 1]] = known
    end
  end
end

local function likeness_of(name)
  return likenesses[name] or NOTHING
end

-- The same with its kinds: halves of fingerprints, in pairs.
local function with_kinds(name)
  local known = likenesses[name] or { compared = 0, near = 0, packed = '' }
  if not known.kinds then
    known.kinds = {}
    for at = 5, #known.packed, 4 do known.kinds[#known.kinds + 1] = struct.unpack('<I4', known.packed, at) end
    likenesses[name] = known
  end
  return known
end

-- One page more. Answers whether it is nearly the same as one before it.
local function compare(known, high, low)
  local kinds, same = known.kinds, nil
  for at = 1, #kinds, 2 do
    if bits_of(bit.bxor(kinds[at], high)) + bits_of(bit.bxor(kinds[at + 1], low)) <= NEAR_BITS then
      same = at
      break
    end
  end
  if known.compared >= MOST then
    known.compared, known.near = math.floor(known.compared / 2), math.floor(known.near / 2)
  end
  local oldest = same or #kinds >= 2 * KINDS and 1
  if same then high, low = kinds[same], kinds[same + 1] end
  if oldest then
    table.remove(kinds, oldest)
    table.remove(kinds, oldest)
  end
  kinds[#kinds + 1], kinds[#kinds + 2] = high, low
  known.compared, known.near = known.compared + 1, known.near + (same and 1 or 0)
  known.lowered = lowered(known)
  return same ~= nil
end

local function save_likeness(name, known)
  local parts = { struct.pack('<I2I2', known.compared, known.near) }
  for i = 1, #known.kinds do parts[i + 1] = struct.pack('<I4', known.kinds[i]) end
  call('SET', 'near:' .. name, table.concat(parts))
end
