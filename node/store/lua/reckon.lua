-- reckon: the counters of I1 are set to what is there, and what is missing is accounted for.
--
-- ARGV 1  URLs that wait, in all lists and in `later`
--      2  domains with a state
--      3.. counter, value, ...: what they were when the rest was counted
-- returns {counter, before, after, ...} for those that were changed; {'moved'} where the ledger isn't any more as
--         it was: somebody is at work, and nothing was done
--
-- URLs that were admitted and are nowhere are counted as dropped (`drop:lost`); of those that are somewhere and
-- were never counted as admitted, the admission is made up for.

for i = 3, #ARGV, 2 do
  if call('HGET', 'ledger', ARGV[i]) ~= ARGV[i + 1] then return { 'moved' } end
end

local values, answer = {}, {}
local flat = call('HGETALL', 'ledger')
for i = 1, #flat, 2 do values[flat[i]] = flat[i + 1] end
local function whole(name)
  local value = tonumber(values[name] or '0')
  return value and value >= 0 and value % 1 == 0 and value or 0
end
local function set(name, value)
  local text = string.format('%d', value)
  if (values[name] or '0') ~= text then
    answer[#answer + 1] = name
    answer[#answer + 1] = values[name] or '0'
    answer[#answer + 1] = text
    values[name] = text
  end
end

local out = 0
for lane = 0, LANES - 1 do out = out + call('ZCARD', 'leases:' .. lane) end
set('queued', ARGV[1])
set('leased', out)
set('spooled', call('XLEN', 'spool'))
set('domains', ARGV[2])
local found = 0
for name in pairs(values) do
  if name == 'queued' or name == 'leased' or name == 'spooled' or name == 'done'
    or string.sub(name, 1, 5) == 'drop:' then
    set(name, whole(name))
    found = found + whole(name)
  end
end
local missing = whole('admitted') - found
if missing > 0 then set('drop:lost', whole('drop:lost') + missing) end
set('admitted', math.max(whole('admitted'), found))

pass_at_maxmemory()
for i = 1, #answer, 3 do call('HSET', 'ledger', answer[i], answer[i + 2]) end
return answer
