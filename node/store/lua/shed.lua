-- shed: drops the lowest priorities of a few domains of a lane, when Redis has had too little memory for long.
--
-- ARGV 1  now, ms
--      2  lane
--      3  base_delay_ms
--      4  from: the rank in `ready` at which the domains to look at begin
--      5  most domains looked at
--      6  most URLs dropped
--      7  level: URLs of this one and worse ones go, the worst first
-- returns {rank at which to go on, -1 where the lane has no more, dropped}
--
-- Domains that are out of `ready` (a visit is under way) are met when it comes round again. What waits in
-- `later` stays: it is bounded by itself. Works at maxmemory, as all that takes URLs out.

clock(ARGV[1])
local lane = ARGV[2]
base_delay = tonumber(ARGV[3])
local from, most, left, least = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local names = call('ZRANGE', 'ready:' .. lane, from, from + most - 1)
local pops, looked, dropped = {}, 0, 0
for i = 1, #names do
  if left <= 0 then break end
  looked = looked + 1
  local domain = open(names[i], lane)
  local level = LEVELS - 1
  while level >= least and left > 0 do
    local list = LIST[level] .. names[i]
    local here = math.min(left, call('LLEN', list))
    if here > 0 then
      pops[#pops + 1] = list
      pops[#pops + 1] = here
      domain.q = domain.q - here
      left, dropped = left - here, dropped + here
      count('shed:' .. level, here)
    end
    if left > 0 then level = level - 1 end
  end
  -- it may have more: begin with it again; or it leaves `ready`, and the others move up
  if left <= 0 or domain.q == 0 then looked = looked - 1 end
end

count('queued', -dropped)
count('drop:shed', dropped)
pass_at_maxmemory()
for i = 1, #pops, 2 do call('LTRIM', pops[i], 0, -1 - pops[i + 1]) end   -- RPOP would answer them all
commit()
if #names < most and left > 0 then return { -1, dropped } end
return { math.max(0, from + looked), dropped }
