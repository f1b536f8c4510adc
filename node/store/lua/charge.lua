-- charge: a page of the spool is charged with the end of a parser; at the last one it is given up.
--
-- ARGV 1  stream id of the page
--      2  why, for people
--      3  at how many ends it is given up; 0: at once, without one
--      4  consumer that had it in hand
--      5  consumer that holds pages for whoever comes first, and 6 for how long (ms) it says it has had them
--      7  most dead letters kept
-- returns {0 no parser has it any more, 1 it is to be tried again or 2 given up; how many ends it has}
--
-- The page goes to the dead letters and off the spool in one step, done by the ledger. One that is to be
-- tried again leaves the consumer it was with, so that another parser may take it over at once; unless
-- another has done so already.

local id, why, most, consumer, holder, idle, dead_max = unpack(ARGV)

local ends = 0
if tonumber(most) > 0 then
  -- those that were read after all, or given up, are charged no more
  for _, each in ipairs(call('HKEYS', 'suspects')) do
    if #call('XRANGE', 'spool', each, each) == 0 then call('HDEL', 'suspects', each) end
  end
end
local entry = call('XRANGE', 'spool', id, id)[1]
local pending = call('XPENDING', 'spool', 'parsers', id, id, 1)[1]
if not (entry and pending) then return { 0, 0 } end

pass_at_maxmemory()
if tonumber(most) > 0 then
  ends = call('HINCRBY', 'suspects', id, 1)
  if ends < tonumber(most) then
    if pending[2] == consumer then
      call('XCLAIM', 'spool', 'parsers', holder, 0, id, 'IDLE', idle, 'JUSTID')
    end
    return { 1, ends }
  end
  why = 'parser ' .. ends .. ' of ' .. most .. ' ' .. why
end
call('HDEL', 'suspects', id)
call('XADD', 'dead', 'MAXLEN', '~', dead_max, '*', 'p', entry[2][2], 'why', why)
call('XACK', 'spool', 'parsers', id)
count('spooled', -call('XDEL', 'spool', id))
count('done', 1)
commit()
return { 2, ends }
