-- begin: a process meets this Redis; the first to meet a new one decides what that means.
--
-- ARGV 1  fingerprint of the frozen settings, as text
--      2  run id of the Redis server
--      3  boot id of the machine
--      4  CLOCK_BOOTTIME, ms
--      5  wall clock, ms (Unix)
--      6  grace_ms: how long a process may go on sending after it last heard of Redis
--      7  schema version
-- returns {'ok', clock base ms, 'first' | 'again' | 'clean' | 'unclean', epoch ms}
--         {'other', fingerprint found}      another crawl, or other frozen settings
--         {'schema', version found}
--
-- now = clock base + CLOCK_BOOTTIME. At a new boot the base moves so that the clock never runs
-- backwards. After an unclean start, of a node or of Redis alone, `epoch` moves: no domain is
-- visited before epoch + its delay (I3).

local meta = redis.call('HMGET', 'meta', 'fingerprint', 'run', 'boot', 'base', 'clean', 'schema')
local boottime, wall, grace = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if meta[6] and meta[6] ~= ARGV[7] then return { 'schema', meta[6] } end
if meta[1] and meta[1] ~= ARGV[1] then return { 'other', meta[1] } end

local base = tonumber(meta[4] or nil)
if meta[3] ~= ARGV[3] then
  base = math.floor(math.max(tonumber(redis.call('GET', 'clock') or 0), wall) - boottime)
end
local epoch = number(redis.call('GET', 'epoch'), 0)
local how = 'again'
if meta[2] ~= ARGV[2] then
  local now = clock(base + boottime)
  if not meta[1] then
    how = 'first'
    redis.call('HSET', 'meta', 'created', string.format('%.0f', now))
  elseif meta[5] == '1' then
    how = 'clean'
  else
    how = 'unclean'
    epoch = now + grace
    redis.call('SET', 'epoch', string.format('%.0f', epoch))
  end
end
redis.call('HSET', 'meta', 'fingerprint', ARGV[1], 'run', ARGV[2], 'boot', ARGV[3],
  'base', string.format('%.0f', base), 'clean', '0', 'schema', ARGV[7])
pcall(redis.call, 'XGROUP', 'CREATE', 'spool', 'parsers', '0', 'MKSTREAM')
return { 'ok', string.format('%.0f', base), how, string.format('%.0f', epoch) }
