-- begin: a process meets this Redis; the first to meet a new one decides what that means.
--
-- ARGV 1  fingerprint of the frozen settings, as text
--      2  run id of the Redis server
--      3  boot id of the machine
--      4  CLOCK_BOOTTIME, ms
--      5  wall clock, ms (Unix)
--      6  grace_ms: how long a process may go on sending after it last heard of Redis
--      7  schema version
--      8  msgpack [file, bytes, ...]: what lies in the archive, where the caller found nothing of a crawl
-- returns {'ok', clock base ms, 'first' | 'again' | 'clean' | 'unclean', epoch ms}
--         {'other', fingerprint found}      another crawl, or other frozen settings
--         {'schema', version found}
--         {'damaged', key, type found}      a key is not of the type store/keys.py gives it
--
-- now = clock base + CLOCK_BOOTTIME. At a new boot the base moves so that the clock never runs
-- backwards. After an unclean start, of a node or of Redis alone, `epoch` moves: no domain is
-- visited before epoch + its delay (I3), and lease numbers begin anew far behind the last.

local TYPES = {
  clock = 'string', epoch = 'string', serial = 'string', ledger = 'hash', outcomes = 'hash', retries = 'hash',
  control = 'hash', lanes = 'hash', beats = 'hash', archive = 'hash', spool = 'stream',
}
local FORGOTTEN = 1000000000   -- lease numbers that no fetchers use up between two syncs of the log
for lane = 0, LANES - 1 do
  for _, name in ipairs({ 'ready:', 'later:', 'leases:' }) do TYPES[name .. lane] = 'zset' end
end

local meta = call('HMGET', 'meta', 'fingerprint', 'run', 'boot', 'base', 'clean', 'schema')
local boottime, wall, grace = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if meta[6] and meta[6] ~= ARGV[7] then return { 'schema', meta[6] } end
if meta[1] and meta[1] ~= ARGV[1] then return { 'other', meta[1] } end
for key, wanted in pairs(TYPES) do
  local found = call('TYPE', key).ok
  if found ~= wanted and found ~= 'none' then return { 'damaged', key, found } end
end

local base = tonumber(meta[4] or nil)
if meta[3] ~= ARGV[3] then
  base = math.floor(math.max(tonumber(call('GET', 'clock') or 0), wall) - boottime)
end
local epoch = tonumber(call('GET', 'epoch') or 0)
local how, older = 'again', {}
local fields = { 'fingerprint', ARGV[1], 'run', ARGV[2], 'boot', ARGV[3], 'base', base, 'clean', '0',
  'schema', ARGV[7] }
if meta[2] ~= ARGV[2] then
  local now = clock(base + boottime)
  if not meta[1] then
    how = 'first'
    in_pieces('HSET', 'meta', { 'created', now })
    older = ARGV[8] and cmsgpack.unpack(ARGV[8]) or {}
  elseif meta[5] == '1' then
    how = 'clean'
  else
    how = 'unclean'
    epoch = now + grace
  end
end
commit()
call('HSET', 'meta', unpack(fields))
in_pieces('HSET', 'archive', older)   -- of another crawl in this folder: it is looked at no more
if how == 'unclean' then
  call('SET', 'epoch', epoch)
  -- The numbers given out last may be forgotten, and their leases still in use: they are not given out again.
  call('INCRBY', 'serial', FORGOTTEN)
end
if call('EXISTS', 'spool') == 0 or #call('XINFO', 'GROUPS', 'spool') == 0 then
  call('XGROUP', 'CREATE', 'spool', 'parsers', '0', 'MKSTREAM')
end
return { 'ok', string.format('%.0f', base), how, string.format('%.0f', epoch) }
