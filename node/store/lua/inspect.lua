-- inspect: what is there of some domains of one lane, counted in one moment. Changes nothing.
--
-- ARGV 1   lane
--      2   '1' to look at every URL, too
--      3.. domains
-- returns, for each domain, {state ('' if there is none; see _lib.lua), URLs in its lists,
--         in `later`, leases out, score in `ready` ('' if it isn't there), the lowest level with URLs in its list,
--         what is wrong with an entry, the entry, ... (a few)}

local MOST = 5   -- entries told per domain
local lane, every = ARGV[1], ARGV[2] == '1'

-- domain -> its entries in `later` and in leases
local later, out = {}, {}
for _, member in ipairs(call('ZRANGE', 'later:' .. lane, 0, -1)) do
  local name, entry = string.match(member, '^(%S+) (.+)$')
  if name then gather(later, name, entry) end
end
for _, lease in ipairs(call('ZRANGE', 'leases:' .. lane, 0, -1)) do
  local name, entry = string.match(lease, '^%S+ %d+ (%S+) (.+)$')
  if name then gather(out, name, entry) end
end

local function look(wrong, seen, entry, level)
  local its = (string.byte(entry, 1) or 0) - 48
  local url = string.sub(entry, 4)
  local what
  if its < 0 or its >= LEVELS or url == '' then
    what = 'no queue entry'
  elseif level and its ~= level then
    what = 'in the list of level ' .. level
  elseif seen[url] then
    what = 'in two places'
  end
  seen[url] = true
  if what and #wrong < 2 * MOST then
    wrong[#wrong + 1] = what
    wrong[#wrong + 1] = entry
  end
end

local answer = {}
for i = 3, #ARGV do
  local name = ARGV[i]
  local in_lists, lowest, wrong, seen = 0, LEVELS, {}, {}
  for level = 0, LEVELS - 1 do
    local list = LIST[level] .. name
    local here = call('LLEN', list)
    in_lists = in_lists + here
    if here > 0 and level < lowest then lowest = level end
    if every then
      for _, entry in ipairs(call('LRANGE', list, 0, -1)) do look(wrong, seen, entry, level) end
    end
  end
  if every then
    for _, entry in ipairs(later[name] or {}) do look(wrong, seen, entry) end
    for _, entry in ipairs(out[name] or {}) do look(wrong, seen, entry) end
  end
  local found = { call('GET', 'd:' .. name) or '', in_lists, #(later[name] or {}), #(out[name] or {}),
    call('ZSCORE', 'ready:' .. lane, name) or '', lowest }
  for k = 1, #wrong do found[#found + 1] = wrong[k] end
  answer[#answer + 1] = found
end
return answer
