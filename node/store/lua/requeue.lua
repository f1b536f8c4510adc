-- requeue: dead letters back onto the spool, to be parsed again.
--
-- ARGV 1  msgpack [stream id, ...] of the dead letters
-- returns how many there were; they are new to the parsers: nothing is charged to them any more

local back = 0
pass_at_maxmemory()
for _, id in ipairs(cmsgpack.unpack(ARGV[1])) do
  local letter = call('XRANGE', 'dead', id, id)[1]
  if letter then
    call('XADD', 'spool', '*', 'p', letter[2][2])
    call('XDEL', 'dead', id)
    back = back + 1
  end
end
count('done', -back)
count('spooled', back)
commit()
return back
