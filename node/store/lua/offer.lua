-- offer: URLs in, and the pages they came from off the spool, in one step.
--
-- ARGV 1  now, ms
--      2  msgpack [base_delay_ms, cap, life_cap, max_domains, believe_ms, plan, returning]
--         cap: most URLs queued per domain; life_cap: most ever admitted per domain;
--         returning: '' or the drop reason these URLs were taken out under (include)
--      3  msgpack [stream id, ...] of the pages acknowledged, may be empty
--      4  msgpack [[domain, lane, first_due_ms, entries], ...]
--      5  the filter slots of all these entries in a row, 12 * rounds bytes each
--         (apart, since Redis's msgpack reads no binary)
-- returns {acknowledged, admitted, seen, refused, displaced,
--          full domain, worst level it holds (-1: nothing is better), believe_ms, ...}
--
-- An offer that admits nothing still acknowledges: XACK comes first, so that at maxmemory the
-- script has written before the first command that may be denied.

local now = clock(ARGV[1])
local base_delay, cap, life_cap, max_domains, believe, plan, returning =
  unpack(cmsgpack.unpack(ARGV[2]))
local acks = cmsgpack.unpack(ARGV[3])
local slots, slot_bytes, next_slot = ARGV[5], 12 * plan[1], 0

local acknowledged = 0
if #acks > 0 then
  acknowledged = redis.call('XACK', 'spool', 'parsers', unpack(acks))
  redis.call('XDEL', 'spool', unpack(acks))
  count('spooled', -acknowledged)
  count('done', acknowledged)
end

local admitted, known, refused, displaced = 0, 0, 0, 0
local full = {}

for _, group in ipairs(cmsgpack.unpack(ARGV[4])) do
  local domain, lane, first_due, entries = unpack(group)
  local key = 'd:' .. domain
  local d = redis.call('HMGET', key, 'q', 'f', 'w', 'due', 'a', 's', 'n', 'gone')
  local queued, leases, life = number(d[1], 0), number(d[2], 0), number(d[5], 0)
  local is_new = not d[5]
  local was_queued = queued
  if d[8] or (is_new and number(redis.call('HGET', 'ledger', 'domains'), 0)
      + (ledger.domains or 0) >= max_domains) then
    refused = refused + #entries
    next_slot = next_slot + slot_bytes * #entries
    count('refuse:' .. (d[8] and 'dead_host' or 'domain_cap'), #entries)
    full[#full + 1] = domain
    full[#full + 1] = -1
    full[#full + 1] = believe
  else
    local seen = open_seen(domain, plan, number(d[6], 0), number(d[7], 0))
    local fresh, waiting = {}, 0   -- level -> entries to append; how many in all
    local worst                    -- worst level that holds a URL, once it matters
    local turned_away = 0
    for _, entry in ipairs(entries) do
      local at = next_slot
      next_slot = next_slot + slot_bytes
      local level = level_of(entry)
      if returning == '' and seen:has(slots, at) then
        known = known + 1
      elseif (returning == '' and life >= life_cap) or not seen:room() then
        turned_away = turned_away + 1
        count('refuse:budget', 1)
        worst = -1
      else
        local enter = queued + waiting < cap
        if not enter and worst ~= -1 then
          -- full: the worst waiting URL gives way to a better one
          for candidate = LEVELS - 1, level + 1, -1 do
            worst = candidate
            local list = fresh[candidate]
            if list and #list > 0 then
              list[#list] = nil
              waiting = waiting - 1
              enter = true
            elseif redis.call('RPOP', 'q:' .. candidate .. ':' .. domain) then
              queued = queued - 1
              count('queued', -1)
              enter = true
            end
            if enter then
              displaced = displaced + 1
              count('drop:displaced', 1)
              break
            end
          end
          if not enter then worst = level end
        end
        if enter then
          local list = fresh[level]
          if not list then
            list = {}
            fresh[level] = list
          end
          list[#list + 1] = entry
          waiting = waiting + 1
          if returning == '' then
            seen:add(slots, at)
            life = life + 1
            count('admitted', 1)
          else
            count('drop:' .. returning, -1)
          end
          admitted = admitted + 1
        else
          turned_away = turned_away + 1
          count('refuse:full', 1)
        end
      end
    end
    for level, list in pairs(fresh) do
      for start = 1, #list, 1000 do
        redis.call('RPUSH', 'q:' .. level .. ':' .. domain,
          unpack(list, start, math.min(start + 999, #list)))
      end
    end
    if waiting > 0 or queued ~= was_queued then
      queued = queued + waiting
      count('queued', waiting)
      local due = number(d[4], first_due)
      if is_new then count('domains', 1) end
      redis.call('HSET', key, 'q', queued, 'a', life, 's', seen.layers, 'n', seen.newest,
        'due', d[4] or string.format('%.3f', first_due))
      if was_queued == 0 then
        place(lane, domain, queued, leases, width_of(base_delay, d[3]), due)
      end
    end
    if turned_away > 0 then
      refused = refused + turned_away
      full[#full + 1] = domain
      full[#full + 1] = worst
      full[#full + 1] = believe
    end
  end
end

close_ledger()
return { acknowledged, admitted, known, refused, displaced, unpack(full) }
