-- Prelude of inspect and mend: is something what it must be?

local STATE_BYTES = 70
local PLACE_BYTES = { [0] = true, [5] = true, [9] = true, [13] = true, [17] = true }   -- with a turn or without

-- The state of a domain, by its size.
local function is_state(packed)
  return #packed >= STATE_BYTES and PLACE_BYTES[#packed - STATE_BYTES] == true
end

local function is_entry(entry)
  local level, depth, state = string.byte(entry, 1, 3)
  return #entry > 3 and level >= 48 and level < 48 + LEVELS and depth >= 48 and state >= 48
end

-- Are all layers there, in full size, that hold the URLs admitted so far?
local function filter_is_whole(name, plan, admitted)
  local sizes, left = plan[2], admitted
  for layer = 1, #sizes do
    if left <= 0 then return true end
    if call('STRLEN', 's:' .. layer .. ':' .. name) ~= sizes[layer][2] * 8 then return false end
    left = left - sizes[layer][1]
  end
  return true
end
