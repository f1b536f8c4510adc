-- extend: gives leases more time, since their visits still live.
--
-- ARGV 1  now, ms
--      2  msgpack [lane, lease, until_ms, ...]
--         lane: as text; until_ms: when it is to run out instead (the caller knows the bound)
-- returns one character per lease: 1 extended (or good for longer already), 0 no longer the caller's
--
-- What has run out is not extended, even where nobody has reaped it yet: its holder has stopped
-- sending by then, and others may go by that.

local now = clock(ARGV[1])
local wanted = cmsgpack.unpack(ARGV[2])

local answer = {}
for i = 1, #wanted, 3 do
  local lane, lease, until_ms = wanted[i], wanted[i + 1], wanted[i + 2]
  local expiry = tonumber(call('ZSCORE', 'leases:' .. lane, lease) or nil)
  if not expiry or expiry <= now then
    answer[#answer + 1] = '0'
  else
    answer[#answer + 1] = '1'
    if until_ms > expiry then
      gather(leased, lane, string.format('%d', until_ms))
      gather(leased, lane, lease)
    end
  end
end
commit()
return table.concat(answer)
