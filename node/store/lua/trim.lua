-- trim: takes URLs of one domain out of the frontier, worst first, and says which.
--
-- ARGV 1  now, ms
--      2  domain
--      3  lane
--      4  base_delay_ms
--      5  keep: how many of its best URLs stay
--      6  host: only URLs of this host and its subdomains; '' for any
--      7  reason under which they are counted as dropped; '' only shows what would go
-- returns {entry, entry, ...}, worst first
--
-- URLs waiting in `later` go first: they can't be served now. What is leased is not touched;
-- the fetcher asks about exclusion before it sends.

clock(ARGV[1])
local domain, lane, base_delay = ARGV[2], ARGV[3], tonumber(ARGV[4])
local keep, host, reason = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local key = 'd:' .. domain
local d = redis.call('HMGET', key, 'q', 'l', 'f', 'w', 'due')
local queued, later = number(d[1], 0), number(d[2], 0)

local function of_host(entry)
  if host == '' then return true end
  local its = string.match(entry, '^...%a+://([^/:?#]+)')
  return its ~= nil and (its == host or string.sub(its, -#host - 1) == '.' .. host)
end

local out = {}
local excess = queued + later - keep
local prefix = domain .. ' '
if later > 0 and excess > 0 then
  for _, member in ipairs(redis.call('ZRANGE', 'later:' .. lane, 0, -1)) do
    if excess <= 0 then break end
    if string.sub(member, 1, #prefix) == prefix and of_host(string.sub(member, #prefix + 1)) then
      out[#out + 1] = string.sub(member, #prefix + 1)
      excess = excess - 1
      if reason ~= '' then
        redis.call('ZREM', 'later:' .. lane, member)
        later = later - 1
      end
    end
  end
end
for level = LEVELS - 1, 0, -1 do
  if excess <= 0 then break end
  local queue = 'q:' .. level .. ':' .. domain
  local entries = redis.call('LRANGE', queue, 0, -1)
  local stay = {}
  for i = #entries, 1, -1 do
    if excess > 0 and of_host(entries[i]) then
      out[#out + 1] = entries[i]
      excess = excess - 1
    else
      stay[#stay + 1] = entries[i]
    end
  end
  if reason ~= '' and #stay < #entries then
    queued = queued - (#entries - #stay)
    redis.call('DEL', queue)
    for first = #stay, 1, -1000 do   -- `stay` runs backwards
      local chunk = {}
      for i = first, math.max(1, first - 999), -1 do chunk[#chunk + 1] = stay[i] end
      redis.call('RPUSH', queue, unpack(chunk))
    end
  end
end
if reason ~= '' and #out > 0 then
  count('queued', -#out)
  count('drop:' .. reason, #out)
  redis.call('HSET', key, 'q', queued, 'l', later)
  place(lane, domain, queued, number(d[3], 0), width_of(base_delay, d[4]), number(d[5], 0))
end
close_ledger()
return out
