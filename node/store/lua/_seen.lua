-- Prelude of the verbs that admit: the seen filter of one domain.
--
-- A layer is a string of 64-bit blocks, s:{layer}:{domain}. A URL is `rounds` times 12 bytes
-- '<III': selector, low mask, high mask. It is in a layer if in each round the block
-- selector % blocks has all bits of the mask. rules/seen.py derives sizes and error.
-- plan: { rounds, { { capacity, blocks }, ... } }, smallest layer first. Whatever is admitted in a
-- domain's life is marked, once; so that number says which layer is the newest, and how full it is.

local halves, band, bor = struct.unpack, bit.band, bit.bor

local Seen = {}
Seen.__index = Seen

-- admitted: URLs in the filter; looks: about how many will be looked up in this call.
local function open_seen(name, plan, admitted, looks)
  local sizes = plan[2]
  local newest, urls = admitted > 0 and 1 or 0, admitted
  while newest > 0 and newest < #sizes and urls > sizes[newest][1] do
    urls = urls - sizes[newest][1]
    newest = newest + 1
  end
  local layers = {}
  for layer = 1, newest do
    local blocks = sizes[layer][2]
    -- `whole`: to be read whole, then what was read; that is cheaper than block by block where a look costs
    -- more than it does: as much as a kilobyte
    layers[layer] = { key = 's:' .. layer .. ':' .. name, blocks = blocks, marks = false,
      whole = looks * 1000 > blocks * 8 }
  end
  return setmetatable({ name = name, rounds = plan[1], sizes = sizes, layers = layers, newest = newest,
    urls = urls }, Seen)
end

local function whole_of(layer)
  if layer.whole == true then layer.whole = call('GET', layer.key) end
  return layer.whole
end

-- The two halves of a block.
local function block_of(layer, block)
  local mark = layer.marks and layer.marks[block]
  if mark then return mark[1], mark[2] end
  if layer.whole then return halves('<i4i4', whole_of(layer), block * 8 + 1) end
  if layer.begun then return 0, 0 end
  return halves('<i4i4', call('GETRANGE', layer.key, block * 8, block * 8 + 7))
end

-- Is a URL known? slots: packed URLs; at: 0-based offset of this one; newest: the layer to begin with.
function Seen:has(slots, at, newest)
  local last = at + self.rounds * 12
  for number = newest or self.newest, 1, -1 do
    local layer = self.layers[number]
    local from = at + 1
    while from < last do
      local selector, low, high = halves('<I4i4i4', slots, from)
      local have_low, have_high = block_of(layer, selector % layer.blocks)
      if band(have_low, low) ~= low or band(have_high, high) ~= high then break end
      from = from + 12
    end
    if from > last then return true end
  end
  return false
end

-- Which of `many` URLs are not known, the first of them being number `first` in slots? Their numbers from
-- 0 on. Most are known, by the newest layer; so that one is looked at right here.
function Seen:unknown(slots, first, many)
  local size, newest, new = self.rounds * 12, self.newest, {}
  local layer = self.layers[newest]
  local whole = self.rounds == 1 and layer and not layer.marks and whole_of(layer)
  local blocks = whole and layer.blocks
  local older = whole and newest - 1 or newest
  for i = 0, many - 1 do
    local at, known = (first + i) * size, false
    if whole then
      local selector, low, high = halves('<I4i4i4', slots, at + 1)
      local have_low, have_high = halves('<i4i4', whole, selector % blocks * 8 + 1)
      known = band(have_low, low) == low and band(have_high, high) == high
    end
    if not known and not (older > 0 and self:has(slots, at, older)) then new[#new + 1] = i end
  end
  return new
end

-- Room for one more? False once the plan's last layer is full.
function Seen:room()
  return self.newest < #self.sizes or self.urls < self.sizes[self.newest][1]
end

-- Marks a URL; `write` brings the marks to Redis. After a full layer the next, larger one begins.
function Seen:add(slots, at)
  if self.newest == 0 or self.urls >= self.sizes[self.newest][1] then
    self.newest, self.urls = self.newest + 1, 0
    self.layers[self.newest] = { key = 's:' .. self.newest .. ':' .. self.name,
      blocks = self.sizes[self.newest][2], begun = true }
  end
  local layer = self.layers[self.newest]
  layer.marks = layer.marks or {}
  for from = at + 1, at + self.rounds * 12, 12 do
    local selector, low, high = halves('<I4i4i4', slots, from)
    local block = selector % layer.blocks
    local have_low, have_high = block_of(layer, block)
    layer.marks[block] = { bor(have_low, low), bor(have_high, high) }
  end
  self.urls = self.urls + 1
end

function Seen:write()
  for _, layer in ipairs(self.layers) do
    if layer.begun then call('SETRANGE', layer.key, layer.blocks * 8 - 1, '\0') end
    for block, mark in pairs(layer.marks or {}) do
      call('SETRANGE', layer.key, block * 8, struct.pack('<i4i4', mark[1], mark[2]))
    end
  end
end
