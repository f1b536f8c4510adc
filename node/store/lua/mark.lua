-- mark: URLs of one domain are marked as seen, whose filter had to be made anew.
--
-- ARGV 1  now, ms
--      2  lane
--      3  domain
--      4  msgpack [base_delay_ms, plan]
--      5  the filter slots of each, in a row
-- returns how many were not marked yet

clock(ARGV[1])
local lane, name, slots = ARGV[2], ARGV[3], ARGV[5]
local base, plan = unpack(cmsgpack.unpack(ARGV[4]))
base_delay = base
local slot_bytes = 12 * plan[1]
local many = #slots / slot_bytes

if call('EXISTS', 'd:' .. name) == 0 then return 0 end
local domain = open(name, lane)
local seen = open_seen(name, plan, domain.a, many)
local marked = 0
for i = 0, many - 1 do
  if not seen:has(slots, i * slot_bytes) and seen:room() then
    seen:add(slots, i * slot_bytes)
    marked = marked + 1
  end
end
domain.a = domain.a + marked
pass_at_maxmemory()
seen:write()
commit()
return marked
