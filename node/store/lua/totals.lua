-- totals: the counters of I1, and what they count, in one moment. (A transaction would be refused at maxmemory,
-- though it only reads.)
--
-- returns {{counter, value, ...}, pages on the spool, leases out, URLs in `later`}

local out, waiting = 0, 0
for lane = 0, LANES - 1 do
  out = out + call('ZCARD', 'leases:' .. lane)
  waiting = waiting + call('ZCARD', 'later:' .. lane)
end
return { call('HGETALL', 'ledger'), call('XLEN', 'spool'), out, waiting }
