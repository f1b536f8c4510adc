-- gateway: the one limiter on calls to the gateway for the whole node, and the stop it can ask for.
--
-- ARGV 1  now, ms
--      2  msgpack [ceiling, want, max_wait_ms, successes, event, sent_ms, wait_ms, why, until_ms]
--         ceiling: most calls per second; want: 1 to take the next turn, 0 only to look
--         successes: calls that got through since the caller last said so
--         event: ''         nothing else
--                limited    the call let go at sent_ms was too much; wait_ms: Retry-After, else 0
--                failed     a call failed at the gateway itself
--                refused    no call can succeed: stop, until an operator resumes
--                quota      the plan is used up: stop until until_ms, 0 = until an operator resumes
--                why: what an operator is told about a stop
-- returns {turn, rate, ahead_ms, hold_ms, stop, why}
--         turn: when to call, ms (text); '' where that is too far away, or calls are stopped
--         rate: calls per second (text); ahead_ms: for how long turns are taken already
--         hold_ms: for how long no call may go out; stop: '', failed, refused or quota; why: in words
--
-- The law is rules/gateway.py's, done here because all fetchers share it; a model test ties the two.
-- A stop is a pause of the node (control), in the gateway's own words: `resume` lifts it, and a pause
-- that an operator asked for stays one.

local START_SHARE, FLOOR_SHARE, GROW_S = 0.5, 0.01, 60
local MISSES, PAUSE_MS, MAX_PAUSE_MS = 5, 10000, 300000

-- At maxmemory a script is let through once it has deleted something, and this one adds nothing.
redis.call('HDEL', 'gateway', '')
local now = clock(ARGV[1])
local ceiling, want, max_wait, successes, event, sent, wait, why, till = unpack(cmsgpack.unpack(ARGV[2]))
local g = redis.call('HMGET', 'gateway', 'rate', 'next', 'hold', 'cut', 'misses', 'stop', 'why', 'until', 'since')
local rate = math.min(ceiling, number(g[1], ceiling * START_SHARE))
local next_at, hold, cut = number(g[2], 0), number(g[3], 0), number(g[4], -1)
local misses, stop, told = number(g[5], 0), g[6] or '', g[7] or ''
local stop_till, since = number(g[8], 0), number(g[9], -1)
local pause = redis.call('HGET', 'control', 'pause')

-- A stop ends when its time has come, or when an operator lifts the pause it made.
if stop ~= '' and (not pause or (stop_till > 0 and now >= stop_till)) then
  if pause == told then
    redis.call('HDEL', 'control', 'pause')
    pause = false
  end
  stop, told, stop_till = '', '', 0
end

if successes > 0 then
  rate = math.min(ceiling, rate + successes * ceiling / (GROW_S * rate))
  misses = 0
  redis.call('HINCRBY', 'gateway', 'passed', successes)
end
if event ~= '' then redis.call('HINCRBY', 'gateway', event, 1) end
local stops = event == 'refused' or event == 'quota'
if event == 'limited' then
  if sent > cut then rate, cut = math.max(ceiling * FLOOR_SHARE, rate / 2), now end
  hold = math.max(hold, now + wait)
elseif event == 'failed' and sent > since then
  misses = misses + 1
  stops = misses >= MISSES
  till = now + math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ^ math.min(misses - MISSES, 10))
end
-- what waits for an operator is not replaced by what passes by itself
if stops and (stop == '' or stop_till > 0) then
  if not pause or pause == told then
    redis.call('HSET', 'control', 'pause', why)
  end
  stop, told, stop_till, since = event, why, till, now
end

local turn = ''
if want == 1 and stop == '' then
  local at = math.max(now, next_at, hold)
  if at - now <= max_wait then
    next_at = at + 1000 / rate
    turn = string.format('%.3f', at)
    redis.call('HINCRBY', 'gateway', 'calls', 1)
  end
end

redis.call('HSET', 'gateway', 'rate', string.format('%.9g', rate), 'ceiling', string.format('%.9g', ceiling),
  'next', string.format('%.3f', next_at), 'hold', string.format('%.0f', hold),
  'cut', string.format('%.3f', cut), 'misses', misses, 'stop', stop, 'why', told,
  'until', string.format('%.0f', stop_till), 'since', string.format('%.3f', since))
return { turn, string.format('%.9g', rate), math.max(0, math.ceil(next_at - now)),
  math.max(0, math.ceil(hold - now)), stop, told }
