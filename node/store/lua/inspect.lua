-- inspect: what is there of some domains of one lane, counted in one moment. Changes nothing.
--
-- ARGV 1   lane
--      2   '1' to look at every URL, too
--      3   msgpack [plan, [URL, ...]]: of the seen filter; those of the domains that have a page on the spool
--      4.. domains
-- returns, for each domain, {state ('' if there is none; see _lib.lua), URLs in its lists,
--         in `later`, leases out, score in `ready` ('' if it isn't there), the lowest level with URLs in its list,
--         1 if its filter is whole, else 0, what is wrong with an entry, the entry, ... (a few)}

local MOST = 5   -- entries told per domain
local lane, every = ARGV[1], ARGV[2] == '1'
local plan, spooled = unpack(cmsgpack.unpack(ARGV[3]))

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
  local url = string.sub(entry, 4)
  local what
  if not is_entry(entry) then
    what = 'no queue entry'
  elseif level and level_of(entry) ~= level then
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
for i = 4, #ARGV do
  local name = ARGV[i]
  local in_lists, lowest, wrong, seen = 0, LEVELS, {}, {}
  for _, url in ipairs(spooled) do seen[url] = true end
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
  local state = call('GET', 'd:' .. name)
  local whole = not (state and is_state(state)) or filter_is_whole(name, plan, open(name, lane).a)
  local found = { state or '', in_lists, #(later[name] or {}), #(out[name] or {}),
    call('ZSCORE', 'ready:' .. lane, name) or '', lowest, whole and 1 or 0 }
  for k = 1, #wrong do found[#found + 1] = wrong[k] end
  answer[#answer + 1] = found
end
return answer
