-- offer: URLs in, and the pages they came from off the spool, in one step.
--
-- ARGV 1  now, ms
--      2  msgpack [base_delay_ms, cap, life_cap, max_domains, believe_ms, plan, returning, run]
--         cap: most URLs waiting per domain; life_cap: most ever admitted per domain;
--         returning: '' or the drop reason these URLs were taken out under (include)
--         run: see `same_redis`; what a parser knows to be seen was so in that one
--      3  msgpack [stream id, ...] of the pages acknowledged, may be empty
--      4  msgpack [[domain, lane, first_due_ms, how many entries], ...]
--      5  the entries of all groups in a row: most are known and need never be cut out of it
--      6  '<I4' for each entry: where it ends in 5
--      7  the filter slots of each entry, 12 * rounds bytes
--      8  '' or msgpack [[domain, lane, high and low half of a fingerprint, ...], ...]: domains of pages that
--         were read, with the fingerprints of those that are compared (_near.lua)
-- returns {acknowledged, admitted, seen, refused, displaced, below,
--          full domain, worst level it holds (-1: nothing is better), believe_ms, ...}
--         below: levels from this one on are turned away just now, whatever their domain
--
-- While memory is short (control: shed, a grade of rules/shed.py) the lowest levels enter only in place of
-- something worse, more and more of them, and in the end nothing does; what is turned away for that is
-- counted as `refuse:shed`, and by level. At maxmemory nothing is admitted. Pages are still acknowledged.

local now = clock(ARGV[1])
local base, cap, life_cap, max_domains, believe, plan, returning, run = unpack(cmsgpack.unpack(ARGV[2]))
base_delay = base
same_redis(run)
local acks = cmsgpack.unpack(ARGV[3])
local groups = cmsgpack.unpack(ARGV[4])
local entries, ends, slots, slot_bytes = ARGV[5], ARGV[6], ARGV[7], 12 * plan[1]
local is_returning = returning ~= ''
local pages = ARGV[8] ~= '' and cmsgpack.unpack(ARGV[8])

-- Redis itself says whether there is room: at maxmemory it refuses a script's first such write.
local probe = redis.pcall('SET', 'clock', now)
local no_memory = type(probe) == 'table' and probe.err
if no_memory and not string.find(no_memory, 'OOM', 1, true) then error(no_memory, 0) end

-- Levels under `free` may enter at this grade of shedding, the others only in place of something worse;
-- what an operator brings back may at any.
local grade = is_returning and 0 or tonumber(call('HGET', 'control', 'shed') or 0)
local free, closed_to_all = LEVELS - grade, grade > LEVELS
local below = LEVELS
if closed_to_all then below = 0 elseif grade > 0 then below = LEVELS - 1 end   -- nothing is worse than the worst

local answer = { 0, 0, 0, 0, 0, below }
local admitted, known, refused, displaced = 0, 0, 0, 0
local old_domains = tonumber(call('HGET', 'ledger', 'domains') or 0)
-- as many may return as were taken out under that reason, so that nothing returns twice
local may_return = is_returning and tonumber(call('HGET', 'ledger', 'drop:' .. returning) or 0)

local function turn_away(name, worst, many, for_ms)
  refused = refused + many
  answer[#answer + 1] = name
  answer[#answer + 1] = worst
  answer[#answer + 1] = for_ms or believe
end

-- What this call does to one domain: its filter; `fresh`, level -> entries to append; how many URLs
-- wait; and once its queue is full `lengths`, level -> URLs in its list that could give way, `taken`,
-- level -> those that do, and `worst`, the highest level that may hold one.
local admissions = {}

-- The worst waiting URL gives way to a better one. Answers whether one did.
local function displace(admission, level)
  local fresh, taken, name = admission.fresh, admission.taken, admission.name
  if not admission.lengths then
    admission.lengths, admission.worst = {}, LEVELS - 1
    for each = 0, LEVELS - 1 do admission.lengths[each] = call('LLEN', LIST[each] .. name) end
  end
  local lengths = admission.lengths
  while admission.worst > level do
    local worst = admission.worst
    if fresh[worst] and #fresh[worst] > 0 then
      fresh[worst][#fresh[worst]] = nil
      return true
    elseif lengths[worst] > 0 then
      lengths[worst] = lengths[worst] - 1
      taken[worst] = (taken[worst] or 0) + 1
      return true
    end
    admission.worst = worst - 1
  end
  return false
end

local function append(admission, level, entry)
  local list = admission.fresh[level]
  if list then
    list[#list + 1] = entry
  else
    call('LLEN', LIST[level] .. admission.name)   -- raises now if it is no list
    admission.fresh[level] = { entry }
  end
end

-- Puts the entries that are not known into their queue, as far as they may.
--   new: their numbers in the group; first: number of the group's first entry in the whole call.
local function admit(admission, domain, new, first)
  local seen, waiting, life = admission.seen, admission.waiting, domain.a
  local turned_away, told, shed = 0, nil, 0
  local lower = pages and likeness_of(domain.name).lowered or 0
  for i = 1, #new do
    local number = first + new[i]
    local slot = number * slot_bytes
    if not is_returning and i > 1 and seen:has(slots, slot) then   -- twice in this call
      known = known + 1
    elseif is_returning and may_return < 1 or not is_returning and (life >= life_cap or not seen:room()) then
      turned_away, told = turned_away + 1, -1
      count('refuse:budget', 1)
    else
      local from = number == 0 and 1 or 1 + halves('<I4', ends, number * 4 - 3)
      local entry = string.sub(entries, from, (halves('<I4', ends, number * 4 + 1)))
      local level = level_of(entry)
      if lower > 0 then
        level = math.min(LEVELS - 1, level + lower)
        entry = string.char(48 + level) .. string.sub(entry, 2)
      end
      local enter = level < free and waiting < cap
      if not enter and not closed_to_all and displace(admission, level) then
        enter = true
        waiting = waiting - 1
        displaced = displaced + 1
      end
      if enter then
        append(admission, level, entry)
        if level < domain.b then domain.b = level end
        waiting = waiting + 1
        admitted = admitted + 1
        if is_returning then
          may_return = may_return - 1
        else
          seen:add(slots, slot)
          life = life + 1
        end
      elseif closed_to_all or waiting < cap then
        shed = shed + 1
        count('shed:' .. level, 1)
      else
        turned_away, told = turned_away + 1, math.min(told or level, level)
        count('refuse:full', 1)
      end
    end
  end
  count('refuse:shed', shed)
  if turned_away > 0 then
    turn_away(domain.name, told, turned_away + shed)
  elseif shed > 0 then
    turn_away(domain.name, LEVELS, shed, 0)   -- it is not full, but these are not known either
  end
  count('queued', waiting - admission.waiting)
  admission.waiting = waiting
  domain.q = waiting - domain.l
  domain.a = life
end

-- One group. Answers why all that is new in it is refused, if so, and how many that are.
local function offer_to(name, lane, first_due, many, first)
  if no_memory then return 'memory', many end
  local admission, seen, admitted_before, packed = admissions[name], nil, 0, nil
  if admission then
    seen = admission.seen
  else
    admitted_before, packed = admitted_by(name)
    seen = open_seen(name, plan, admitted_before, many)
  end
  local new = {}
  if is_returning then
    for i = 0, many - 1 do new[i + 1] = i end
  else
    new = seen:unknown(slots, first, many)
  end
  known = known + many - #new
  if #new == 0 then return end   -- as it is for most: their domains need not be opened
  local domain = open(name, lane, packed)
  if not admission then
    admission = { name = name, is_new = not packed, seen = seen, fresh = {}, taken = {},
      waiting = domain.q + domain.l }
    admissions[name] = admission
  end
  if domain.gone == 1 then return 'dead_host', #new end
  if admission.is_new and old_domains + (ledger.domains or 0) >= max_domains then return 'domain_cap', #new end
  local before = admitted
  admit(admission, domain, new, first)
  if admission.is_new and admitted > before then
    admission.is_new = false
    domain.due = first_due
    count('domains', 1)
  end
end

if pages then
  local names = {}
  for i, group in ipairs(groups) do names[i] = group[1] end
  for _, page in ipairs(pages) do names[#names + 1] = page[1] end
  recall(names)
end
local first = 0
for _, group in ipairs(groups) do
  local name, lane, first_due, many = unpack(group)
  if name == '' or string.find(name, '%s') then error('no domain: "' .. name .. '"', 0) end
  local refuse, how_many = offer_to(name, lane, first_due, many, first)
  if refuse then
    count('refuse:' .. refuse, how_many)
    turn_away(name, -1, how_many)
  end
  first = first + many
end

-- A domain whose pages are much alike waits so many delays more; this comes after the visit was settled.
for _, page in ipairs(pages or {}) do
  local name = page[1]
  for i = 3, #page, 2 do
    local known = with_kinds(name)
    if compare(known, page[i], page[i + 1]) then count('pages_near', 1) end
    count('pages_compared', 1)
    known.changed = true
  end
  local known = likeness_of(name)
  if known.lowered > 0 then
    local domain = open(name, page[2])
    domain.due = math.max(domain.due, now + base_delay * (1 + known.lowered))
    if not domain.packed and not admissions[name] then domains[name] = nil end
  end
end

pass_at_maxmemory()
for name, known in pairs(likenesses) do
  if known and known.changed and not no_memory then save_likeness(name, known) end
end
local acknowledged = 0
for from = 1, #acks, 1000 do
  local to = math.min(from + 999, #acks)
  call('XACK', 'spool', 'parsers', unpack(acks, from, to))
  -- counted by what leaves the spool: of a page that was taken over only one ack counts
  acknowledged = acknowledged + call('XDEL', 'spool', unpack(acks, from, to))
end
count('spooled', -acknowledged)
count('done', acknowledged)
count('drop:displaced', displaced)
if is_returning then
  count('drop:' .. returning, -admitted)
else
  count('admitted', admitted)
end
for name, admission in pairs(admissions) do
  for level, many in pairs(admission.taken) do call('RPOP', LIST[level] .. name, many) end
  for level, entries in pairs(admission.fresh) do in_pieces('RPUSH', LIST[level] .. name, entries) end
  admission.seen:write()
  if admission.is_new then domains[name] = nil end   -- nothing entered: as if never offered
end
commit()
answer[1], answer[2], answer[3], answer[4], answer[5] = acknowledged, admitted, known, refused, displaced
return answer
