-- tools.lua - what the report's pages share: numbers, dates and candidates as people read them, and axes of charts.
local tools = {}

-- 1234567 -> "1,234,567"
function tools.whole(number)
  local text, sign = tostring(math.floor(number)), ""
  if text:sub(1, 1) == "-" then text, sign = text:sub(2), "-" end
  local out = ""
  while #text > 3 do
    out = "," .. text:sub(-3) .. out
    text = text:sub(1, -4)
  end
  return sign .. text .. out
end

function tools.fixed(number, digits)
  return string.format("%." .. digits .. "f", number)
end

-- three digits that count: 8.43, 84.3, 843, 8,430
function tools.time(microseconds)
  if microseconds <= 0 then return "–" end
  if microseconds < 9.995 then return tools.fixed(microseconds, 2) end
  if microseconds < 99.95 then return tools.fixed(microseconds, 1) end
  return tools.whole(microseconds + 0.5)
end

-- a time beside an axis: no digits that say nothing
function tools.mark(microseconds)
  if microseconds >= 10 and math.abs(microseconds - math.floor(microseconds + 0.5)) < 1e-6 * microseconds then
    return tools.whole(microseconds + 0.5)
  end
  return tools.time(microseconds)
end

-- a ratio of times: 1.004, 1.31, 12.5
function tools.ratio(number)
  if number <= 0 then return "–" end
  return tools.fixed(number, number < 1.0995 and 3 or number < 9.995 and 2 or 1)
end

-- the median absolute deviation as a share of the time
function tools.spread(spread, microseconds)
  if spread <= 0 or microseconds <= 0 then return "–" end
  local share = 100 * spread / microseconds
  return "±" .. tools.fixed(share, share < 0.95 and 2 or 1) .. " %"
end

function tools.teraflops(operations, microseconds)
  if operations <= 0 or microseconds <= 0 then return "–" end
  local value = operations / microseconds * 1e-6
  return tools.fixed(value, value < 9.995 and 2 or value < 99.95 and 1 or 0)
end

-- bytes that a call must move at least, by its time
function tools.gigabytes(bytes, microseconds)
  if bytes <= 0 or microseconds <= 0 then return "–" end
  local value = bytes / microseconds * 1e-3
  return value < 9.995 and tools.fixed(value, 2) or tools.whole(value + 0.5)
end

-- few queries against many keys: it is the memory that is waited for
function tools.is_decoding(result)
  for _, size in ipairs(result.sizes) do
    if size.name == "seqlen_q" and size.value <= 4 and result.bytes > 0 then return true end
  end
  return result.operations <= 0 and result.bytes > 0
end

function tools.seconds(number)
  return number < 9.95 and tools.fixed(number, 1) .. " s" or tools.whole(number + 0.5) .. " s"
end

function tools.count(number, one, many)
  return tools.whole(number) .. " " .. (number == 1 and one or many)
end

-- "89 of 868", "all 60"; "–" where nobody knows
function tools.share_of(number, all)
  if number <= 0 then return "–" end
  if all <= 0 then return tools.whole(number) end
  return number == all and "all " .. tools.whole(all) or tools.whole(number) .. " of " .. tools.whole(all)
end

-- seconds since 1970 -> "2026-01-31 23:59 UTC", by the Gregorian calendar
function tools.date(seconds)
  if seconds <= 0 then return "–" end
  local days, rest = seconds // 86400, seconds % 86400
  local z = days + 719468
  local era = z // 146097
  local of_era = z - era * 146097
  local year_of_era = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
  local of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
  local m = (5 * of_year + 2) // 153
  local day, month = of_year - (153 * m + 2) // 5 + 1, m < 10 and m + 3 or m - 9
  local year = year_of_era + era * 400 + (month <= 2 and 1 or 0)
  return string.format("%04d-%02d-%02d %02d:%02d UTC", year, month, day, rest // 3600, rest % 3600 // 60)
end

-- "family a=1 b=2" -> "family", {{name=, value=}...}
function tools.words(text)
  local head, list = "", {}
  for _, word in ipairs(text:split(" ")) do
    local parts = word:split("=")
    if #parts == 1 then
      if word ~= "" and head == "" then head = word end
    else
      table.insert(list, {name = parts[1], value = word:sub(#parts[1] + 2)})
    end
  end
  return head, list
end

-- The problem in the fewest words that mean the same: fields that follow another are left out.
local follows = {
  {"dtype", {"q_dtype", "k_dtype", "v_dtype", "o_dtype"}}, {"head_dim", {"head_dim_qk", "head_dim_v"}},
  {"heads", {"heads", "kv_heads"}}, {"seqlen_q", {"seqlen_q", "seqlen_k"}},
}
function tools.short_problem(text)
  return table.concat(tools.problem_words(text), " ")
end
function tools.problem_words(text)
  local family, list = tools.words(text)
  local values = {}
  for _, word in ipairs(list) do values[word.name] = word.value end
  local first, gone = {}, {}
  for _, rule in ipairs(follows) do
    local same = true
    for _, name in ipairs(rule[2]) do
      same = same and values[name] ~= nil and values[name] == values[rule[2][1]]
    end
    if same then
      first[rule[2][1]] = rule[1]
      for i = 2, #rule[2] do gone[rule[2][i]] = true end
    end
  end
  local out = {}
  if family ~= "attention.forward" and family ~= "" then table.insert(out, family) end
  for _, word in ipairs(list) do
    if not gone[word.name] then table.insert(out, (first[word.name] or word.name) .. "=" .. word.value) end
  end
  return out
end

-- Words of many problems: what all share, as one text, and each one's rest. Of a single problem nothing is shared.
function tools.tell_apart(texts)
  local seen, common, rests = {}, {}, {}
  for _, text in ipairs(texts) do
    for _, word in ipairs(tools.problem_words(text)) do seen[word] = (seen[word] or 0) + 1 end
  end
  for at, text in ipairs(texts) do
    local rest = {}
    for _, word in ipairs(tools.problem_words(text)) do
      if #texts > 1 and seen[word] == #texts then
        if at == 1 then table.insert(common, word) end
      else
        table.insert(rest, word)
      end
    end
    table.insert(rests, table.concat(rest, " "))
  end
  return table.concat(common, " "), rests
end

-- how a candidate differs from the default one, in words
function tools.short_candidate(name, standard)
  if name == "" then return "–" end
  if name == standard then return "the default" end
  local template, list = tools.words(name)
  local other_template, others = tools.words(standard)
  local values, out = {}, {}
  for _, word in ipairs(others) do values[word.name] = word.value end
  if template ~= other_template then table.insert(out, template) end
  for _, word in ipairs(list) do
    if values[word.name] ~= word.value then table.insert(out, word.name .. "=" .. word.value) end
  end
  return table.concat(out, " ")
end

-- ---- axes ----

-- a step of 1, 2 or 5 times a power of ten, of which about `count` fit into `span`
local function nice_step(span, count)
  local raw = span / count
  local power = 10.0 ^ math.floor(math.log(raw, 10))
  local lead = raw / power
  return (lead <= 1 and 1 or lead <= 2 and 2 or lead <= 5 and 5 or 10) * power
end

-- Marks of a logarithmic axis from low to high: round numbers, as many as there is room for.
local leads = {
  {1}, {1, 3}, {1, 2, 5}, {1, 2, 3, 5}, {1, 1.5, 2, 3, 4, 5, 7}, {1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9},
}
function tools.log_marks(low, high)
  for _, set in ipairs(leads) do
    local marks, power = {}, 10.0 ^ math.floor(math.log(low, 10))
    while power <= high do
      for _, lead in ipairs(set) do
        if lead * power >= low and lead * power <= high then table.insert(marks, lead * power) end
      end
      power = power * 10
    end
    if #marks >= 4 then return marks end
  end
  local marks, step = {}, nice_step(high - low, 4)
  local at = math.ceil(low / step)
  while at * step <= high and #marks < 12 do
    table.insert(marks, at * step)
    at = at + 1
  end
  return marks
end

function tools.linear_marks(low, high)
  local marks, step = {}, math.max(1, nice_step(math.max(high - low, 1), 5))
  local at = math.ceil(low / step)
  while at * step <= high and #marks < 12 do
    table.insert(marks, math.floor(at * step))
    at = at + 1
  end
  return marks
end

-- maps low..high to from..to, by logarithms or in proportion
function tools.log_scale(low, high, from, to)
  local base, span = math.log(low), math.log(high / low)
  return function(value) return from + (to - from) * (math.log(value) - base) / span end
end
function tools.linear_scale(low, high, from, to)
  local span = high > low and high - low or 1
  return function(value) return from + (to - from) * (value - low) / span end
end

return tools
