-- settle: closes leases with what became of them.
--
-- ARGV 1  now, ms
--      2  msgpack [base_delay_ms, max_delay_ms, later_max, retire_after, jitter, run]
--         run: see `same_redis`; what the marks say is true of no other
--         jitter: 0..1, for the back-off of hosts that can't be reached
--      3  msgpack [[lane, lease, kind, outcome, signal, sent, pointer, wait_ms, pause_ms,
--                   crawl_delay_ms, ttfb_ms, place], ...]
--         lane: as text, like every number that becomes part of a key (Lua writes numbers slowly)
--         kind: page   stored: its pointer goes to the spool; counted unless outcome is 'sitemap'
--               done   visited, nothing to parse
--               retry  again after wait_ms if the domain's retry budget grants it, else done
--               later  not visited; again after wait_ms (robots.txt can't be had yet)
--               back   not visited; back to the front
--               drop   not visited, never will be; outcome is the reason
--         signal: success, throttle, dead, none; sent: 1 if a page request went out
--         pause_ms: the site asked for this long (Retry-After), else 0
--         crawl_delay_ms: what robots.txt asks for, 0 for nothing, -1 for unknown
--         ttfb_ms: time to first byte, 0 if it was not measured or says nothing about the site
--         place: where the domain was met (_address.lua); '' if it was not, "\0" if that doesn't count
--      4  msgpack [file, durable offset, ...]: high-water marks of the archive
-- returns one character per result: 1 settled, 0 stale (refused), r retry granted
--
-- The leases go first: that write succeeds at maxmemory too, and lets the rest through. So a page
-- is never both leased and spooled, nor neither.
-- Pace and retries are in _pace.lua.

local now = clock(ARGV[1])
local base_of_crawl, max_delay, later_max, retire_after, jitter, run = unpack(cmsgpack.unpack(ARGV[2]))
same_redis(run)
base_delay = base_of_crawl
local results = cmsgpack.unpack(ARGV[3])
local marks = cmsgpack.unpack(ARGV[4])

-- Which leases are still there? Those end, whatever else becomes of them.
local by_lane, held = {}, {}
for i = 1, #results do gather(by_lane, results[i][1], results[i][2]) end
for lane, leases in pairs(by_lane) do
  local ours = {}
  for first = 1, #leases, 1000 do
    local expiries = call('ZMSCORE', 'leases:' .. lane, unpack(leases, first, min(first + 999, #leases)))
    for i = 1, #expiries do
      if expiries[i] then
        local lease = leases[first + i - 1]
        held[lease] = true
        ours[#ours + 1] = lease
      end
    end
  end
  closed[lane] = ours
end

local later, waiting, spooled = {}, {}, {}   -- lane -> time, URL, ...; lane -> how many; pointers

local function put_off(domain, lane, entry, wait)
  local there = waiting[lane] or call('ZCARD', 'later:' .. lane)
  if there < later_max then
    waiting[lane] = there + 1
    gather(later, lane, now + wait)
    gather(later, lane, domain.name .. ' ' .. entry)
    domain.l = domain.l + 1
    count('queued', 1)
  else
    enqueue(domain, entry, 'RPUSH')
    domain.due = max(domain.due, now + max(base_delay, 1000))
  end
end

local function retire(domain)
  for level = 0, LEVELS - 1 do emptied[#emptied + 1] = LIST[level] .. domain.name end
  count('queued', -domain.q)
  count('drop:dead_host', domain.q)
  count('retired', 1)
  domain.q = 0
  domain.gone = 1
end

open_budget()
local limits = { max_delay = max_delay, jitter = jitter }
local answer = {}
for i = 1, #results do
  local lane, lease, kind, outcome, signal, sent, pointer, wait, pause, asked, ttfb, place = unpack(results[i])
  if not held[lease] then
    answer[i] = '0'
    count('stale', 1)
  else
    answer[i] = '1'
    held[lease] = false
    local serial, hops, name, entry = string.match(lease, '^%S+%.(%d+) (%d+) (%S+) (.+)$')
    local domain = open_whole(name, lane)
    count('leased', -1)
    domain.f = domain.f - 1
    if #place == 1 then place = '' elseif place == '' then place = domain.place end
    if place ~= domain.place then domain.place, domain.turn, domain.has_moved = place, 0, true end
    local visit = { signal = signal, sent = sent, pause = pause, crawl_delay = asked, ttfb = ttfb }
    pace(domain, visit, tonumber(hops), tonumber(serial), now, limits)

    local state = string.byte(entry, 3)
    local first_try = sent == 1 and (state - 48) % 4 == 0
    local wanted = kind == 'retry' and domain.gone == 0
    local granted = budget(domain, first_try, wanted, signal == 'dead')
    if granted then
      entry = string.sub(entry, 1, 2) .. string.char(state + 1) .. string.sub(entry, 4)
      answer[i] = 'r'
    end
    if kind == 'retry' then kind = granted and 'later' or 'done' end
    if domain.gone == 1 and (kind == 'later' or kind == 'back') then kind, outcome = 'drop', 'dead_host' end
    if kind == 'page' then
      spooled[#spooled + 1] = pointer
      count('spooled', 1)
      if outcome ~= 'sitemap' then count('pages', 1) end
    elseif kind == 'done' then
      count('done', 1)
    elseif kind == 'later' then
      put_off(domain, lane, entry, wait)
    elseif kind == 'back' then
      enqueue(domain, entry, 'LPUSH')
    elseif kind == 'drop' then
      count('drop:' .. outcome, 1)
    else
      error('no kind of result: ' .. tostring(kind), 0)
    end
    if kind ~= 'drop' and kind ~= 'back' then outcomes[outcome] = (outcomes[outcome] or 0) + 1 end
    if domain.x >= retire_after and domain.gone == 0 then retire(domain) end
  end
end

commit()
save_budget()
for i = 1, #spooled do call('XADD', 'spool', '*', 'p', spooled[i]) end
for lane, list in pairs(later) do in_pieces('ZADD', 'later:' .. lane, list) end
in_pieces('HSET', 'archive', marks)
return table.concat(answer)
