-- found: visits whose records lie in the archive, but that Redis may know nothing of, are settled.
--
-- ARGV 1  now, ms
--      2  run: see `same_redis`
--      3  msgpack [base_delay_ms, plan, life_cap, max_domains, fetcher]
--         fetcher: number of the one whose records these are
--      4  msgpack [[lane, domain, entry, kind, outcome, place], ...]
--         lane: as text; entry: what is believed of the URL where Redis knows nothing of it
--         kind: page   its pointer goes to the spool
--               done   nothing to parse
--         place: "file offset length", the beginning of its pointer
--      5  the filter slots of each, in a row
--      6  msgpack [file, offset, ...]: all of the archive up to there has been looked at
-- returns one character each:
--         l  was leased to this fetcher, in whatever life of it; the domain owes what the visit may have sent
--         q  was queued, or waited for a time of its own: Redis had lost the lease, or it had run out
--         n  was unknown: its admission was lost, and is made up for
--         k  was dealt with: done, on the spool, or dropped
--         o  is leased to another fetcher by now, which is left to end its visit
--         x  was unknown, and may not enter: the domain is at a bound, or was given up
--
-- After a crash of Redis, which may take back what it did last; and for a result that came too late.

local now = clock(ARGV[1])
same_redis(ARGV[2])
local base, plan, life_cap, max_domains, fetcher = unpack(cmsgpack.unpack(ARGV[3]))
base_delay = base
local records, slots, slot_bytes = cmsgpack.unpack(ARGV[4]), ARGV[5], 12 * plan[1]
local marks = cmsgpack.unpack(ARGV[6])
local own = fetcher .. '.'
local old_domains = tonumber(call('HGET', 'ledger', 'domains') or 0)

-- lane -> URL -> its lease
local leases_of = {}
local function lease_of(lane, url)
  local known = leases_of[lane]
  if not known then
    known = {}
    leases_of[lane] = known
    for _, lease in ipairs(call('ZRANGE', 'leases:' .. lane, 0, -1)) do
      local its = string.match(lease, '^%S+ %d+ %S+ ...(.+)$')
      if its then known[its] = lease end
    end
  end
  return known[url]
end

-- domain -> URL -> {list, entry}; the lane's members of `later` are looked through for those that have any
local queues_of, laters_of = {}, {}
local function queues(domain)
  local known = queues_of[domain.name]
  if known then return known end
  known = {}
  queues_of[domain.name] = known
  for level = LEVELS - 1, 0, -1 do
    local list = LIST[level] .. domain.name
    for _, entry in ipairs(call('LRANGE', list, 0, -1)) do known[string.sub(entry, 4)] = { list, entry } end
  end
  if domain.l > 0 then
    local lane = domain.lane
    laters_of[lane] = laters_of[lane] or call('ZRANGE', 'later:' .. lane, 0, -1)
    for _, member in ipairs(laters_of[lane]) do
      local its, entry = string.match(member, '^(%S+) (.+)$')
      if its == domain.name then known[string.sub(entry, 4)] = { false, entry, member } end
    end
  end
  return known
end

local gone_from_lists, gone_from_later, spooled, filters = {}, {}, {}, {}

-- It was never admitted, as far as Redis knows. Answers whether it could be.
local function admit(domain, at)
  local seen = filters[domain.name]
  local is_new = not domain.packed and domain.a == 0
  if domain.gone == 1 or domain.a >= life_cap or not seen:room() then return false end
  if is_new then
    if old_domains + (ledger.domains or 0) >= max_domains then return false end
    count('domains', 1)
    domain.due = now + delay_of(domain)
  end
  seen:add(slots, at)
  domain.a = domain.a + 1
  count('admitted', 1)
  return true
end

local function settle(record, domain, at)
  local lane, _, entry = unpack(record)
  local url = string.sub(entry, 4)
  local lease = lease_of(lane, url)
  if lease then
    if string.sub(lease, 1, #own) ~= own then return 'o' end
    local hops, its = string.match(lease, '^%S+ (%d+) %S+ (.+)$')
    gather(closed, lane, lease)
    leases_of[lane][url] = nil
    domain.f = domain.f - 1
    domain.due = math.max(domain.due, now + delay_of(domain) * (1 + hops))
    count('leased', -1)
    return 'l', its
  end
  local queue = queues(domain)[url]
  if queue then
    local list, its, member = unpack(queue)
    queues_of[domain.name][url] = nil
    if list then
      gone_from_lists[#gone_from_lists + 1] = list
      gone_from_lists[#gone_from_lists + 1] = its
      domain.q = domain.q - 1
    else
      gather(gone_from_later, lane, member)
      domain.l = domain.l - 1
    end
    count('queued', -1)
    return 'q', its
  end
  local seen = filters[domain.name] or open_seen(domain.name, plan, domain.a, 1)
  filters[domain.name] = seen
  if seen:has(slots, at) then return 'k' end
  if not admit(domain, at) then return 'x' end
  return 'n', entry
end

local answer = {}
for i, record in ipairs(records) do
  local lane, name, _, kind, outcome, place = unpack(record)
  local known = domains[name]
  local domain = open(name, lane)
  local how, entry = settle(record, domain, (i - 1) * slot_bytes)
  answer[i] = how
  if entry then
    if kind == 'page' then
      local depth, its_kind = string.byte(entry, 2) - 48, math.floor((string.byte(entry, 3) - 48) / 16)
      local sitemap = its_kind > 1 and '.' .. (its_kind - 1) or ''
      spooled[#spooled + 1] = place .. ' ' .. depth .. sitemap .. ' ' .. string.sub(entry, 4)
      count('spooled', 1)
      outcome = its_kind > 1 and 'sitemap' or outcome
      if outcome ~= 'sitemap' then count('pages', 1) end
    elseif kind == 'done' then
      count('done', 1)
    else
      error('no kind of record: ' .. tostring(kind), 0)
    end
    outcomes[outcome] = (outcomes[outcome] or 0) + 1
    count('found', 1)
  elseif not (domain.packed or known) then
    domains[name] = nil   -- nothing is kept of it
  end
end

commit()
for i = 1, #gone_from_lists, 2 do call('LREM', gone_from_lists[i], 1, gone_from_lists[i + 1]) end
for lane, members in pairs(gone_from_later) do in_pieces('ZREM', 'later:' .. lane, members) end
for _, seen in pairs(filters) do seen:write() end
for i = 1, #spooled do call('XADD', 'spool', '*', 'p', spooled[i]) end
in_pieces('HSET', 'archive', marks)
return table.concat(answer)
