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
local name, lane = ARGV[2], ARGV[3]
base_delay = tonumber(ARGV[4])
local keep, host, reason = tonumber(ARGV[5]), ARGV[6], ARGV[7]
local domain = open(name, lane)

local function of_host(entry)
  if host == '' then return true end
  local its = string.match(entry, '^...%a+://([^/:?#]+)')
  return its ~= nil and (its == host or string.sub(its, -#host - 1) == '.' .. host)
end

local out, from_later = {}, {}
local excess = domain.q + domain.l - keep
local prefix = name .. ' '
if domain.l > 0 and excess > 0 then
  for _, member in ipairs(call('ZRANGE', 'later:' .. lane, 0, -1)) do
    if excess <= 0 then break end
    local entry = string.sub(member, #prefix + 1)
    if string.sub(member, 1, #prefix) == prefix and of_host(entry) then
      out[#out + 1] = entry
      from_later[#from_later + 1] = member
      excess = excess - 1
    end
  end
end
local stays = {}   -- list -> what is left of it, last first
local from_lists = 0
for level = LEVELS - 1, 0, -1 do
  if excess <= 0 then break end
  local list = LIST[level] .. name
  local entries = call('LRANGE', list, 0, -1)
  local stay = {}
  for i = #entries, 1, -1 do
    if excess > 0 and of_host(entries[i]) then
      out[#out + 1] = entries[i]
      from_lists = from_lists + 1
      excess = excess - 1
    else
      stay[#stay + 1] = entries[i]
    end
  end
  if #stay < #entries then stays[list] = stay end
end
if reason == '' or #out == 0 then return out end

domain.q = domain.q - from_lists
domain.l = domain.l - #from_later
count('queued', -#out)
count('drop:' .. reason, #out)
commit()
in_pieces('ZREM', 'later:' .. lane, from_later)
for list, stay in pairs(stays) do
  call('DEL', list)
  in_pieces('LPUSH', list, stay)   -- the last first, so each comes to stand before it
end
return out
