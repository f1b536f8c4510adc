-- move: a member of a lane that belongs to another one, or is none, leaves it.
--
-- ARGV 1  'ready', 'later' or 'leases'
--      2  lane
--      3  member
--      4  the lane it belongs to, '' where it is none
-- returns 1, or 0 where it was not there any more

local kind, lane, member, to = unpack(ARGV)
local score = call('ZSCORE', kind .. ':' .. lane, member)
if not score then return 0 end
pass_at_maxmemory()
call('ZREM', kind .. ':' .. lane, member)
if to ~= '' then call('ZADD', kind .. ':' .. to, score, member) end
return 1
