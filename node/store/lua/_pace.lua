-- Prelude of settle: a domain's pace after a visit, and whether a retry is granted. The laws of
-- rules/pace.py and rules/retry.py in whole numbers; names, order and comments are theirs, and
-- tests hold the two together.

local WIDTH_FLOOR, WIDTH_CEILING = 1000, 32000         -- thousandths
local DEAD_BASE_MS, LONE_DELAY_MS = 1000, 1000
local PATIENCE_VISITS, PATIENCE_MS, PATIENCE_GROWTH, GRADE_MAX = 64, 30000, 4, 4
local RUN_MAX, SLOWDOWNS_MAX = 1000000, 65535
local LATENCY_WARM_UP, LATENCY_LEAST_MS, LATENCY_MAX_MS = 32, 50, 60000
local DOMAIN_MAX, NODE_START, NODE_MAX, COST = 100, 1000, 10000, 10   -- tenths of a retry
local WINDOW, WINDOW_LEAST, FAILING_PART = 1000, 50, 5

local max, min, floor, ceil = math.max, math.min, math.floor, math.ceil

local last_serial   -- of the newest lease handed out
local function newest_lease()
  last_serial = last_serial or tonumber(call('GET', 'serial') or 0)
  return last_serial
end

local function slower(domain, base, max_delay, now, gently)
  local longest = max(max_delay, base)
  if domain.run > 0 then
    local here = base > 0 and max(base, domain.g) or max(2, floor(domain.w / 1000))
    local milder = false
    if domain.failed > 0 then
      if base > 0 then milder = here > domain.failed else milder = here < domain.failed end
    end
    if not milder then
      domain.failed, domain.grade = here, min(GRADE_MAX, domain.grade + 1)
    elseif domain.run < PATIENCE_VISITS then
      local far
      if base > 0 then far = here * 3 > domain.failed * 4 else far = here * 4 < domain.failed * 3 end
      domain.failed, domain.grade = here, far and 1 or domain.grade
    end
  end
  if base > 0 then
    local doubled = min(longest, max(base, domain.g) * 2)
    domain.g = gently and max(domain.g, min(doubled, 4 * base)) or doubled
  elseif domain.w > WIDTH_FLOOR then
    domain.w = max(WIDTH_FLOOR, floor(domain.w / 2))
  elseif not gently then
    domain.g = domain.g > 0 and min(longest, domain.g * 2) or min(longest, LONE_DELAY_MS)
  end
  domain.run = 0
  domain.slowed_at = floor(now / 1000)
  domain.mark = newest_lease()
  domain.slowdowns = min(SLOWDOWNS_MAX, domain.slowdowns + 1)
  count('slowdowns', 1)
end

local function faster(domain, base, now)
  domain.run = min(RUN_MAX, domain.run + 1)
  local run, patient = domain.run, true
  if domain.grade > 0 then
    local visits = PATIENCE_VISITS + (base > 0 and 0 or floor(domain.failed * domain.failed / 2))
    local growth = PATIENCE_GROWTH ^ (domain.grade - 1)
    local quiet = now - domain.slowed_at * 1000
    patient = run >= visits * growth and quiet >= PATIENCE_MS * growth
    if run >= visits * growth * 2 and quiet >= PATIENCE_MS * growth * 2 then
      domain.failed, domain.grade = 0, 0
    end
  end
  local least = patient and 0 or domain.failed
  if base > 0 then
    if domain.g > 0 then
      local half = floor(domain.g / 2)
      local lower = half >= max(base, domain.failed) * 2 and half or domain.g - ceil(base / 10)
      domain.g = min(domain.g, max(lower, least + ceil(least / 32)))
      if domain.g <= base then domain.g = 0 end
    end
  elseif domain.g > 0 then
    local half = floor(domain.g / 2)
    domain.g = half >= LONE_DELAY_MS and half or 0
  else
    local wider = min(WIDTH_CEILING, domain.w + floor((1000000 + floor(domain.w / 2)) / domain.w))
    if least == 0 or wider < least * 1000 then domain.w = wider end
  end
end

local function with_latency(domain, ttfb)
  local new = min(ttfb, LATENCY_MAX_MS) * 256
  if domain.answers >= LATENCY_WARM_UP then new = min(new, 4 * domain.usual) end
  domain.answers = min(128, domain.answers + 1)
  domain.ttfb = domain.ttfb + floor((new - domain.ttfb) / min(16, domain.answers))
  domain.usual = domain.usual + floor((new - domain.usual) / domain.answers)
end

local function is_late(domain)
  local late_by = domain.ttfb - domain.usual
  return domain.answers >= LATENCY_WARM_UP and late_by > domain.usual and late_by > LATENCY_LEAST_MS * 256
end

-- v: what settle is told of the visit; serial: of its lease
local function pace(domain, v, hops, serial, now, limits)
  if v.crawl_delay >= 0 then
    local had_delay = max(base_delay, domain.m) > 0
    domain.m = v.crawl_delay
    if had_delay ~= (max(base_delay, domain.m) > 0) then domain.failed = 0 end
  end
  local base, due, factor = max(base_delay, domain.m), domain.due, 1
  if v.signal == 'success' then
    domain.x = 0
    if v.ttfb > 0 then with_latency(domain, v.ttfb) end
    if is_late(domain) and serial > domain.mark then
      slower(domain, base, limits.max_delay, now, true)
      domain.usual = floor((domain.usual + domain.ttfb) / 2)
      domain.ttfb = domain.usual
    elseif serial > domain.mark then
      faster(domain, base, now)
    end
  elseif v.signal == 'throttle' then
    domain.x = 0
    if serial > domain.mark then slower(domain, base, limits.max_delay, now, false) end
    factor = 1 + limits.jitter / 10
  elseif v.signal == 'dead' then
    if due <= now then   -- else it is parked already, and this visit had begun before
      local back_off = min(max(limits.max_delay, base), max(base, DEAD_BASE_MS) * 2 ^ min(domain.x, 20))
      due = now + ceil(back_off * (1 + limits.jitter / 10))
      domain.x = domain.x + 1
    end
  elseif v.signal ~= 'none' then
    error('no signal: ' .. tostring(v.signal), 0)
  end
  if v.sent == 1 then due = max(due, now + ceil(max(base, domain.g) * (1 + hops) * factor)) end
  if v.pause > 0 then due = max(due, now + v.pause) end
  domain.due = due
end

-- The node's budget of retries: tokens, first tries of late, and how many of them failed.
local node = { tokens = NODE_START, tries = 0, failed = 0, same = true }
local function open_budget()
  local known = call('HMGET', 'retries', 'tokens', 'first_tries', 'failed')
  node.tokens = number(known[1], NODE_START)
  node.tries, node.failed = number(known[2], 0), number(known[3], 0)
end

local function save_budget()
  if node.same then return end
  call('HSET', 'retries', 'tokens', node.tokens, 'first_tries', node.tries, 'failed', node.failed)
end

-- Answers whether a retry is granted, if one is wanted.
local function budget(domain, first_try, wanted, dead)
  if first_try or wanted then node.same = false end
  if first_try then
    domain.t = min(DOMAIN_MAX, domain.t + 1)
    node.tokens = min(NODE_MAX, node.tokens + 1)
    if node.tries >= WINDOW then node.tries, node.failed = floor(node.tries / 2), floor(node.failed / 2) end
    if not dead then
      node.tries = node.tries + 1
      if wanted then node.failed = node.failed + 1 end
    end
    count('first_tries', 1)
  end
  if not wanted then return false end
  if node.tries >= WINDOW_LEAST and node.failed * FAILING_PART > node.tries then
    count('no_retry:failing', 1)
  elseif domain.t < COST then
    count('no_retry:domain', 1)
  elseif node.tokens < COST then
    count('no_retry:node', 1)
  else
    domain.t, node.tokens = domain.t - COST, node.tokens - COST
    count('retries', 1)
    return true
  end
  return false
end
