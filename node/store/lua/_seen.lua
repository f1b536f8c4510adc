-- Prelude of the verbs that admit: the seen filter of one domain.
--
-- A layer is a string of 64-bit blocks, s:{layer}:{domain}. A URL is `rounds` times 12 bytes
-- '<III': selector, low mask, high mask. It is in a layer if in each round the block
-- selector % blocks has all bits of the mask. rules/seen.py derives sizes and error.
-- plan: { rounds, { { capacity, blocks }, ... } }, smallest layer first.

local WHOLE_BYTES = 16384  -- a layer up to this size is read once, a larger one block by block

local Seen = {}
Seen.__index = Seen

-- layers: how many layers the domain has; newest: URLs in its last one.
local function open_seen(domain, plan, layers, newest)
  return setmetatable({
    domain = domain, rounds = plan[1], sizes = plan[2], layers = layers, newest = newest,
    whole = {}, changed = {},
  }, Seen)
end

function Seen:block(layer, block)
  local changed = self.changed[layer]
  local pair = changed and changed[block]
  if pair then return pair[1], pair[2] end
  local key = 's:' .. layer .. ':' .. self.domain
  local whole = self.whole[layer]
  if whole == nil then
    if self.sizes[layer][2] * 8 <= WHOLE_BYTES then
      whole = redis.call('GET', key) or ''
    else
      whole = false
    end
    self.whole[layer] = whole
  end
  if whole then return struct.unpack('<i4i4', whole, block * 8 + 1) end
  return struct.unpack('<i4i4', redis.call('GETRANGE', key, block * 8, block * 8 + 7), 1)
end

-- slots: the packed URLs; at: 0-based offset of this one.
function Seen:has(slots, at)
  for layer = self.layers, 1, -1 do
    local blocks = self.sizes[layer][2]
    local found = true
    for round = 0, self.rounds - 1 do
      local selector, low, high = struct.unpack('<I4I4I4', slots, at + round * 12 + 1)
      local have_low, have_high = self:block(layer, selector % blocks)
      if bit.band(bit.bnot(have_low), low) ~= 0 or bit.band(bit.bnot(have_high), high) ~= 0 then
        found = false
        break
      end
    end
    if found then return true end
  end
  return false
end

-- Room for one more? False once the plan's last layer is full.
function Seen:room()
  return self.layers < #self.sizes or self.newest < self.sizes[self.layers][1]
end

function Seen:add(slots, at)
  if self.layers == 0 or self.newest >= self.sizes[self.layers][1] then
    self.layers = self.layers + 1
    self.newest = 0
    local bytes = self.sizes[self.layers][2] * 8
    redis.call('SETRANGE', 's:' .. self.layers .. ':' .. self.domain, bytes - 1, '\0')
    self.whole[self.layers] = nil
  end
  local layer = self.layers
  local blocks = self.sizes[layer][2]
  for round = 0, self.rounds - 1 do
    local selector, low, high = struct.unpack('<I4I4I4', slots, at + round * 12 + 1)
    local block = selector % blocks
    local have_low, have_high = self:block(layer, block)
    have_low, have_high = bit.bor(have_low, low), bit.bor(have_high, high)
    local changed = self.changed[layer]
    if not changed then
      changed = {}
      self.changed[layer] = changed
    end
    changed[block] = { have_low, have_high }
    redis.call('SETRANGE', 's:' .. layer .. ':' .. self.domain, block * 8,
      struct.pack('<i4i4', have_low, have_high))
  end
  self.newest = self.newest + 1
end
