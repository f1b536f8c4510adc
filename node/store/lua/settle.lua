-- settle: closes leases with what became of them.
--
-- ARGV 1  now, ms
--      2  msgpack [base_delay_ms, max_delay_ms, later_max, retire_after, jitter]
--         jitter: 0..1, for the back-off of hosts that can't be reached
--      3  msgpack [[lane, lease, kind, outcome, signal, sent, pointer, wait_ms, pause_ms,
--                   crawl_delay_ms], ...]
--         kind: page   stored: its pointer goes to the spool
--               done   visited, nothing to parse
--               retry  again after wait_ms if the domain's retry budget grants it, else done
--               later  not visited; again after wait_ms (robots.txt can't be had yet)
--               back   not visited; back to the front
--               drop   not visited, never will be; outcome is the reason
--         signal: success, throttle, dead, none; sent: 1 if a page request went out
--         pause_ms: the site asked for this long (Retry-After), else 0
--         crawl_delay_ms: what robots.txt asks for, 0 for nothing, -1 for unknown
--      4  msgpack [file, durable offset, ...]: high-water marks of the archive
-- returns one character per result: 1 settled, 0 stale (refused), r retry granted
--
-- The lease goes first: at maxmemory that is the write that still succeeds, and the script is
-- then let through. So a page is never both leased and spooled, nor neither.
-- The pace is rules/pace.py's, done here because it must be exact; a model test ties the two.

local now = clock(ARGV[1])
local base_delay, max_delay, later_max, retire_after, jitter = unpack(cmsgpack.unpack(ARGV[2]))
local RETRY_START, RETRY_CAP, RETRY_SHARE = 2, 10, 0.1
local WIDTH_FLOOR, WIDTH_CEILING = 1, 32

local function retire(domain, key, lane)
  local gone = 0
  for level = 0, LEVELS - 1 do
    local queue = 'q:' .. level .. ':' .. domain
    gone = gone + redis.call('LLEN', queue)
    redis.call('DEL', queue)
  end
  count('queued', -gone)
  count('drop:dead_host', gone)
  count('retired', 1)
  redis.call('HSET', key, 'gone', 'retired')
end

local answer = {}
for i, result in ipairs(cmsgpack.unpack(ARGV[3])) do
  local lane, member, kind, outcome, signal, sent, pointer, wait, pause, crawl_delay = unpack(result)
  if redis.call('ZREM', 'leases:' .. lane, member) == 0 then
    answer[i] = '0'
    count('stale', 1)
  else
    answer[i] = '1'
    local hops, domain, entry = string.match(member, '^%S+ (%d+) (%S+) (.+)$')
    hops = tonumber(hops)
    local key = 'd:' .. domain
    local d = redis.call('HMGET', key, 'q', 'l', 'f', 'w', 'due', 'g', 'm', 'x', 't', 'gone')
    local queued, later, leases = number(d[1], 0), number(d[2], 0), number(d[3], 0) - 1
    local width, due = number(d[4], 4), number(d[5], 0)
    local adapted, unreachable, tokens = number(d[6], 0), number(d[8], 0), number(d[9], RETRY_START)
    local asked = d[7] or false
    count('leased', -1)

    -- pace
    if crawl_delay >= 0 then asked = crawl_delay end
    local base = math.max(base_delay, number(asked, 0))
    if signal == 'success' then
      unreachable = 0
      adapted = math.max(base, adapted - base / 10)
      width = math.min(WIDTH_CEILING, width + 1 / width)
    elseif signal == 'throttle' then
      unreachable = 0
      adapted = math.min(math.max(max_delay, base), math.max(base, adapted) * 2)
      width = math.max(WIDTH_FLOOR, width / 2)
    elseif signal == 'dead' then
      unreachable = unreachable + 1
    end
    if sent == 1 then
      due = math.max(due, now + math.max(base, adapted) * (1 + hops))
    end
    if signal == 'dead' then
      local back_off = math.max(base, 1000) * 2 ^ math.min(unreachable - 1, 20)
      due = math.max(due, now + math.min(max_delay, back_off) * (1 + jitter / 10))
    end
    if pause > 0 then due = math.max(due, now + pause) end
    local tries = (string.byte(entry, 3) - 48) % 4
    if sent == 1 and tries == 0 then tokens = math.min(RETRY_CAP, tokens + RETRY_SHARE) end

    -- the URL
    if kind == 'retry' then
      if d[10] or tokens < 1 then
        kind = 'done'
      else
        tokens = tokens - 1
        entry = string.sub(entry, 1, 2) .. string.char(string.byte(entry, 3) + 1) .. string.sub(entry, 4)
        answer[i] = 'r'
        count('retries', 1)
        kind = 'later'
      end
    end
    if d[10] and (kind == 'later' or kind == 'back') then kind, outcome = 'drop', 'dead_host' end
    if kind == 'page' then
      redis.call('XADD', 'spool', '*', 'p', pointer)
      count('spooled', 1)
      count('pages', 1)
    elseif kind == 'later' and redis.call('ZCARD', 'later:' .. lane) < later_max then
      redis.call('ZADD', 'later:' .. lane, string.format('%.0f', now + wait), domain .. ' ' .. entry)
      later = later + 1
      count('queued', 1)
    elseif kind == 'later' then
      redis.call('RPUSH', 'q:' .. level_of(entry) .. ':' .. domain, entry)
      queued = queued + 1
      count('queued', 1)
      due = math.max(due, now + math.max(base, 1000))
    elseif kind == 'back' then
      to_front(domain, entry)
      queued = queued + 1
      count('queued', 1)
    elseif kind == 'drop' then
      count('drop:' .. outcome, 1)
    else
      count('done', 1)
    end
    if kind ~= 'drop' and kind ~= 'back' then redis.call('HINCRBY', 'outcomes', outcome, 1) end

    if unreachable >= retire_after and not d[10] then
      retire(domain, key, lane)
      queued = 0
    end
    local fields = { 'q', queued, 'l', later, 'f', leases, 'due', string.format('%.0f', due),
      'g', string.format('%.0f', adapted), 'x', unreachable, 't', string.format('%.2f', tokens) }
    if base_delay == 0 then
      fields[#fields + 1] = 'w'
      fields[#fields + 1] = string.format('%.3f', width)
    end
    if crawl_delay >= 0 then
      fields[#fields + 1] = 'm'
      fields[#fields + 1] = string.format('%.0f', crawl_delay)
    end
    redis.call('HSET', key, unpack(fields))
    place(lane, domain, queued, leases, width_of(base_delay, string.format('%.3f', width)), due)
  end
end

local marks = cmsgpack.unpack(ARGV[4])
for i = 1, #marks, 2 do
  redis.call('HSET', 'archive', marks[i], string.format('%.0f', marks[i + 1]))
end
close_ledger()
return table.concat(answer)
