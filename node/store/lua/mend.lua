-- mend: puts right what is kept of one domain: its URLs, its state, its filter, its place in `ready`.
--
-- ARGV 1  now, ms
--      2  lane
--      3  domain
--      4  msgpack [base_delay_ms, plan, bits_set, latest_due_ms, latest_lease_ms]
--         bits_set: bits that a URL sets in each round; no domain is due later, and no lease runs out later
--      5  msgpack [URL, ...]: those that have a page on the spool
-- returns {what was done, how often, ...}; nothing where all was right. If "filter" is among them, the domain's
--         URLs are to be marked as seen again (verb `mark`).
--
-- For a node at rest: the counters of the ledger are not followed (see `reckon`). A URL stays in one place, the
-- furthest on its way: on the spool, leased, in the list of its level, in `later`. A state that can't be read is
-- made anew around what waits; it is due a delay from now at the soonest.

local now = clock(ARGV[1])
local lane, name = ARGV[2], ARGV[3]
local base, plan, bits_set, latest, latest_lease = unpack(cmsgpack.unpack(ARGV[4]))
base_delay = base

local done, order = {}, {}
local function did(what, many)
  if many == 0 then return end
  if not done[what] then order[#order + 1] = what end
  done[what] = (done[what] or 0) + (many or 1)
end

-- keys that can't be read ---------------------------------------------------------------------

local kinds = { ['d:' .. name] = 'string', ['near:' .. name] = 'string', ['robots:' .. name] = 'hash' }
for level = 0, LEVELS - 1 do kinds[LIST[level] .. name] = 'list' end
for layer = 1, #plan[2] do kinds['s:' .. layer .. ':' .. name] = 'string' end
for key, kind in pairs(kinds) do
  local found = call('TYPE', key).ok
  if found ~= kind and found ~= 'none' then
    pass_at_maxmemory()
    call('DEL', key)
    did('type')
  end
end

-- its state -----------------------------------------------------------------------------------

local packed = call('GET', 'd:' .. name)
local domain
if packed and is_state(packed) then
  domain = open(name, lane)
else
  if packed then call('DEL', 'd:' .. name) end
  domain = open(name, lane)
  domain.due = now + base
end
if not (domain.due >= 0 and domain.due <= latest) then   -- also NaN
  domain.due = now + delay_of(domain)
  did('due')
end
if domain.turn and not (domain.turn >= 0 and domain.turn <= latest) then domain.turn = 0 end
if domain.w < 1000 or domain.w > 32000 then
  domain.w = 4000
  did('width')
end

-- its URLs ------------------------------------------------------------------------------------

local met = {}
for _, url in ipairs(cmsgpack.unpack(ARGV[5])) do met[url] = true end

-- Is it an entry of a URL that is nowhere else? Says what is wrong if not.
local function belongs(entry)
  if not is_entry(entry) then
    did('no_entry')
    return false
  end
  local url = string.sub(entry, 4)
  if met[url] then
    did('twice')
    return false
  end
  met[url] = true
  return true
end

local out, dropped, endless = 0, {}, {}
local leases = call('ZRANGE', 'leases:' .. lane, 0, -1, 'WITHSCORES')
for i = 1, #leases, 2 do
  local its, entry = string.match(leases[i], '^%S+ %d+ (%S+) (.+)$')
  if its == name then
    if not belongs(entry) then
      dropped[#dropped + 1] = leases[i]
    else
      out = out + 1
      if tonumber(leases[i + 1]) > latest_lease then endless[#endless + 1] = leases[i] end
    end
  end
end
did('endless', #endless)

local lists, changed, queue = {}, {}, 0
for level = 0, LEVELS - 1 do lists[level] = {} end
for level = 0, LEVELS - 1 do
  for _, entry in ipairs(call('LRANGE', LIST[level] .. name, 0, -1)) do
    if not belongs(entry) then
      changed[level] = true
    else
      local its = level_of(entry)
      if its ~= level then
        did('moved')
        changed[level], changed[its] = true, true
      end
      lists[its][#lists[its] + 1] = entry
      queue = queue + 1
    end
  end
end

local waiting, not_later = 0, {}
for _, member in ipairs(call('ZRANGE', 'later:' .. lane, 0, -1)) do
  local its, entry = string.match(member, '^(%S+) (.+)$')
  if its == name then
    if belongs(entry) then waiting = waiting + 1 else not_later[#not_later + 1] = member end
  end
end

if domain.gone == 1 and queue > 0 then   -- a domain that was given up has no queue
  did('given_up', queue)
  count('drop:dead_host', queue)
  for level = 0, LEVELS - 1 do
    if #lists[level] > 0 then lists[level], changed[level] = {}, true end
  end
  queue = 0
end

-- its filter ----------------------------------------------------------------------------------

local marks, full = 0, 0   -- how many URLs it holds, more or less, where the state doesn't say; full layers do
for layer, size in ipairs(domain.packed and {} or plan[2]) do
  local key = 's:' .. layer .. ':' .. name
  if call('STRLEN', key) ~= size[2] * 8 then break end
  marks = full + math.max(1, math.min(size[1], math.ceil(call('BITCOUNT', key) / (plan[1] * bits_set))))
  full = full + size[1]
end

local there = queue + waiting + out
local known = domain.packed or there > 0 or marks > 0
if known then
  if not domain.packed then
    did('state')
    domain.a = marks
  end
  if not filter_is_whole(name, plan, domain.a) or (domain.a == 0 and there > 0) then
    did('filter')
    domain.a = 0
  end
  local lowest = LEVELS
  for level = LEVELS - 1, 0, -1 do
    if #lists[level] > 0 then lowest = level end
  end
  if domain.packed and (domain.q ~= queue or domain.l ~= waiting or domain.f ~= out) then did('counts') end
  if domain.packed and domain.b > lowest then did('lowest') end
  if domain.b > lowest or not domain.packed then domain.b = lowest end
  domain.q, domain.l, domain.f = queue, waiting, out
else
  domains[name] = nil
end

-- and all of it is written ---------------------------------------------------------------------

local at = known and ready_at(domain)
local stands = call('ZSCORE', 'ready:' .. lane, name)
pass_at_maxmemory()
if done.filter then
  for layer = 1, #plan[2] do call('DEL', 's:' .. layer .. ':' .. name) end
end
closed[lane] = dropped
for _, lease in ipairs(endless) do
  gather(leased, lane, string.format('%d', now))
  gather(leased, lane, lease)
end
commit()
in_pieces('ZREM', 'later:' .. lane, not_later)
for level in pairs(changed) do
  call('DEL', LIST[level] .. name)
  in_pieces('RPUSH', LIST[level] .. name, lists[level])
end
if at then
  if not stands or tonumber(stands) ~= at then
    call('ZADD', 'ready:' .. lane, at % 1 == 0 and string.format('%d', at) or string.format('%.17g', at), name)
    did('ready')
  end
elseif stands then
  call('ZREM', 'ready:' .. lane, name)
  did('ready')
end

local answer = {}
for _, what in ipairs(order) do
  answer[#answer + 1] = what
  answer[#answer + 1] = done[what]
end
return answer
