-- gateway: the one limiter on calls to the gateway for the whole node, and the stop it can ask for.
--
-- ARGV 1  now, ms
--      2  msgpack [ceiling, want, max_wait_ms, successes, event, sent_ms, wait_ms, why, until_ms]
--         ceiling: most calls per second; want: 1 to take the next turn, 0 only to look
--         successes: calls that got through since the caller last said so
--         event: ''         nothing else
--                limited    the call let go at sent_ms was too much; wait_ms: Retry-After, else 0;
--                           with a why: stop for so long
--                failed     a call failed at the gateway
--                unreachable  there was no gateway
--                refused    no call can succeed: stop, until an operator resumes
--                quota      the plan is used up: stop until until_ms, 0 = until an operator resumes
--                why: what an operator is told about a stop
-- returns {turn, rate, ahead_ms, hold_ms, stop, why}
--         turn: when to call, ms (text); '' where that is too far away, or calls are stopped
--         rate: calls per second (text); ahead_ms: for how long turns are taken already
--         hold_ms: for how long no call may go out; stop: '' or the event that stops us; why: in words
--
-- The law is rules/gateway.py's, done here because all fetchers share it; a model test ties the two.
-- A stop is a pause of the node (control), in the gateway's own words: `resume` lifts it, and a pause
-- that an operator asked for stays one.

local START_SHARE, FLOOR_SHARE, GROW_S = 0.5, 0.01, 60
local MISSES, UNREACHABLE_MISSES, PAUSE_MS, MAX_PAUSE_MS = 20, 4, 10000, 300000

local now = clock(ARGV[1])
local ceiling, want, max_wait, successes, event, sent, wait, why, till = unpack(cmsgpack.unpack(ARGV[2]))
local g = call('HMGET', 'gateway', 'rate', 'next', 'hold', 'cut', 'misses', 'pauses', 'since',
  'stop', 'why', 'until')
local rate = math.min(ceiling, number(g[1], ceiling * START_SHARE))
local next_at, hold, cut = number(g[2], 0), number(g[3], 0), number(g[4], -1)
local misses, pauses, since = number(g[5], 0), number(g[6], 0), number(g[7], -1)
local stop, told, stop_till = g[8] or '', g[9] or '', number(g[10], 0)
local paused = call('HGET', 'control', 'pause')
local pause = paused

-- A stop ends when its time has come, or when an operator lifts the pause it made.
if stop ~= '' and (not pause or (stop_till > 0 and now >= stop_till)) then
  if pause == told then pause = false end
  stop, told, stop_till = '', '', 0
end

if successes > 0 then
  rate = math.min(ceiling, rate + successes * ceiling / (GROW_S * rate))
  misses, pauses = 0, 0
end
local stops = event == 'refused' or event == 'quota'
if event == 'limited' then
  if sent > cut then rate, cut = math.max(ceiling * FLOOR_SHARE, rate / 2), now end
  hold = math.max(hold, now + wait)
  if why ~= '' then stops, till = true, now + wait end
elseif (event == 'failed' or event == 'unreachable') and sent > since then
  misses = misses + (event == 'failed' and 1 or UNREACHABLE_MISSES)
  if misses >= MISSES then
    stops = true
    till = now + math.min(MAX_PAUSE_MS, PAUSE_MS * 2 ^ math.min(pauses, 10))
    misses, pauses = MISSES - 1, pauses + 1
  end
end
-- what waits for an operator is not replaced by what passes by itself
if stops and (stop == '' or stop_till > 0) then
  if not pause or pause == told then pause = why end
  stop, told, stop_till, since = event, why, till, now
end

local turn = ''
if want == 1 and stop == '' then
  local at = math.max(now, next_at, hold)
  if at - now <= max_wait then
    next_at = at + 1000 / rate
    turn = string.format('%.3f', at)
  end
end

commit()
call('HSET', 'gateway', 'rate', string.format('%.9g', rate), 'ceiling', string.format('%.9g', ceiling),
  'next', string.format('%.3f', next_at), 'hold', string.format('%d', hold),
  'cut', string.format('%.3f', cut), 'misses', misses, 'pauses', pauses,
  'since', string.format('%.3f', since), 'stop', stop, 'why', told, 'until', string.format('%d', stop_till))
if successes > 0 then call('HINCRBY', 'gateway', 'passed', successes) end
if event ~= '' then call('HINCRBY', 'gateway', event, 1) end
if turn ~= '' then call('HINCRBY', 'gateway', 'turns', 1) end
if pause and pause ~= paused then
  call('HSET', 'control', 'pause', pause)
elseif paused and not pause then
  call('HDEL', 'control', 'pause')
end
return { turn, string.format('%.9g', rate), math.max(0, math.ceil(next_at - now)),
  math.max(0, math.ceil(hold - now)), stop, told }
