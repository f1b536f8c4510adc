-- unspool: a page whose record is not in the archive any more leaves the spool; its URL is queued again.
--
-- ARGV 1  now, ms
--      2  base_delay_ms
--      3  stream id of the page
--      4  lane
--      5  domain
--      6  entry: what the URL is queued as
-- returns 1, or 0 where the page was not on the spool any more
--
-- The page is taken back as if it had not come: what was counted is counted off again. Works at maxmemory.

clock(ARGV[1])
base_delay = tonumber(ARGV[2])
local id, lane, name, entry = ARGV[3], ARGV[4], ARGV[5], ARGV[6]

level_of(entry)
if #call('XRANGE', 'spool', id, id) == 0 then return 0 end
local domain = open(name, lane)
count('spooled', -1)
count('record_gone', 1)
if string.byte(entry, 3) - 48 < 32 then count('pages', -1) end   -- else it is a sitemap
if domain.gone == 1 then
  count('drop:dead_host', 1)
else
  enqueue(domain, entry, 'LPUSH')
end
pass_at_maxmemory()
call('XACK', 'spool', 'parsers', id)
call('XDEL', 'spool', id)
call('HDEL', 'suspects', id)
commit()
return 1
