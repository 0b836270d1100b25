-- plan.lua: how mistakes are planted: what an entry of a table means, and the mistakes that all templates can have alike.
--
-- An entry: `kind` (the sort of mistake), `name`, `says` (one sentence), and what it does to the text: `edits`, a list of
-- {find, replace} of plain text, every occurrence of which is replaced, or `rewrite`, a function of the text. `where` tells of
-- which candidates' text the mistake is meant; there the text must be found, so that the table cannot rot. Without `where` it is
-- meant of all. c: the candidate's parameters; p: the problem's fields; d: the named constants of the expanded text.
--
-- `equivalent` is the reason for which a mistake cannot be seen, with `equivalent_where` of some candidates only, and the test
-- holds that such mistakes do pass. `length_bound` says that a mistake shows at some lengths only: candidates with lengths
-- compiled in are not held to catch it, since they serve no others. `may_pass` tells of candidates whose bound is too coarse
-- for it.

local plan = {}

-- heads and strides, which every template names alike
function plan.addresses(mutant)
    local function lse(_, p) return p.lse == 1 end
    -- ---- heads ----
    mutant { kind = "wrong KV head", name = "modulo", says = "KV head = query head mod ratio",
        edits = { { "kv_head = head / HEAD_RATIO", "kv_head = head % HEAD_RATIO" } } }
    mutant { kind = "wrong KV head", name = "interleaved", where = function(_, _, d) return d.HEAD_RATIO > 1 end,
        says = "KV head = query head mod KV heads", -- two KV heads in every call of the checks
        edits = { { "kv_head = head / HEAD_RATIO", "kv_head = head % 2" } } }
    mutant { kind = "wrong KV head", name = "off by one", where = function(_, _, d) return d.HEAD_RATIO > 1 end,
        says = "groups begin a query head late",
        edits = { { "kv_head = head / HEAD_RATIO", "kv_head = (head > 0 ? head - 1 : 0) / HEAD_RATIO" } } }
    mutant { kind = "wrong KV head", name = "not shared", where = function(_, _, d) return d.HEAD_RATIO > 1 end,
        says = "KV head = query head, past the tensors' end", edits = { { "kv_head = head / HEAD_RATIO", "kv_head = head" } } }

    -- ---- strides: each tensor's each axis takes the next axis's ----
    for _, tensor in ipairs { "q", "k", "v", "o" } do
        for index, axis in ipairs { "batch", "seq", "head" } do
            local other = ({ "seq", "head", "batch" })[index]
            local name = tensor .. "_" .. axis .. "_stride"
            mutant { kind = "wrong stride", name = name, says = name .. " has the value of " .. tensor .. "_" .. other .. "_stride",
                length_bound = axis == "seq",
                edits = { { name .. " = given." .. name .. ";", name .. " = given." .. tensor .. "_" .. other .. "_stride;" } } }
        end
    end
    local lse_index = "((i64)batch_index * heads + head) * seqlen_q + q_begin + row"
    mutant { kind = "wrong stride", name = "lse rows", where = lse, says = "lse has rows of seqlen_q + 1",
        edits = { { lse_index, "((i64)batch_index * heads + head) * (seqlen_q + 1) + q_begin + row" } } }
    mutant { kind = "wrong stride", name = "lse order", where = lse, says = "lse is written [batch, query, head]", length_bound = true,
        edits = { { lse_index, "((i64)batch_index * seqlen_q + q_begin + row) * heads + head" } } }
    mutant { kind = "wrong stride", name = "lse batch", where = lse, says = "every sequence writes the first one's lse",
        edits = { { lse_index, "(i64)head * seqlen_q + q_begin + row" } } }
end

-- ---- barriers and what waits for copies: each one that the text has, found by itself ----
-- It is named by the code before and behind it, so that one place of the template is one mutant over all candidates.
local function code_line(lines, at, step)
    at = at + step
    while lines[at] do
        local line = lines[at]:gsub("//.*", ""):match("^%s*(.-)%s*$")
        if line ~= "" and line:sub(1, 1) ~= "#" then
            return (line:gsub("%d+;$", "N;"))
        end
        at = at + step
    end
    return ""
end
local function barriers(text)
    local lines, found, begun = {}, {}, false
    for line in (text .. "\n"):gmatch("(.-)\n") do
        lines[#lines + 1] = line
    end
    for at, line in ipairs(lines) do
        begun = begun or line:find("attune_host_entry(", 1, true) ~= nil
        local call = line:match("^%s*(%w*_?barrier)%(%);")
        local copies = line:match("^%s*(commit_copies)%(copies%);") or line:match("^%s*(wait_%w+)[^(]*%(copies%);")
        if begun and (call or copies) then
            local copy = table.move(lines, 1, #lines, 1, {})
            copy[at] = ""
            local name = code_line(lines, at, -1):sub(1, 48) .. " | " .. code_line(lines, at, 1):sub(1, 48)
            found[#found + 1] = { kind = call and "barrier removed" or "wait removed", name = name,
                says = "no " .. (call or copies) .. " between the two lines",
                text = table.concat(copy, "\n") }
        end
    end
    return found
end

-- ---- from a candidate's text to its mutants ----
function plan.constants(text)
    local d = {}
    for line in text:gmatch("[^\n]+") do
        if line:find("^constexpr int ") then
            for name, value in line:gmatch("([%u_]+) = (%d+)") do
                d[name] = tonumber(value)
            end
        end
    end
    d.tails = false
    for tail in text:gmatch("load_unit<%d+, (%d+)>%(") do
        d.tails = d.tails or tonumber(tail) < 16
    end
    d.padded_v = text:find("if (column >= HEAD_DIM_V)", 1, true) ~= nil
    return d
end

local function replace_all(text, find, replace)
    local parts, at = {}, 1
    while true do
        local first, last = text:find(find, at, true)
        if not first then
            break
        end
        parts[#parts + 1] = text:sub(at, first - 1)
        parts[#parts + 1] = replace
        at = last + 1
    end
    if #parts == 0 then
        return nil
    end
    return table.concat(parts) .. text:sub(at)
end

local function apply(entry, text, c, p, d)
    if entry.rewrite then
        return entry.rewrite(text, c, p, d)
    end
    for _, edit in ipairs(entry.edits) do
        text = replace_all(text, edit[1], edit[2])
        if not text then
            return nil
        end
    end
    return text
end

-- All mutants of one candidate: a list of {kind, name, says, text, equivalent, free}. `text` is nil when a mistake that should
-- be in the candidate is not. #line directives go first: they would stand inside what is looked for.
function plan.plan(list, text, c, p)
    text = text:gsub("#line [^\n]*\n", "")
    local d = plan.constants(text)
    local result = barriers(text)
    table.insert(result, 1, { kind = "none", name = "none", says = "the text as it is", text = text, equivalent = "nothing is changed" })
    for _, entry in ipairs(list) do
        if not entry.where or entry.where(c, p, d) then
            local equivalent = entry.equivalent
            if equivalent and entry.equivalent_where and not entry.equivalent_where(c, p, d) then
                equivalent = nil
            end
            local mutated = apply(entry, text, c, p, d)
            result[#result + 1] = { kind = entry.kind, name = entry.name, says = entry.says,
                text = mutated ~= text and mutated or nil, equivalent = equivalent,
                free = (entry.length_bound and c.exact == "lengths") or (entry.may_pass and entry.may_pass(c, p, d)) or false }
        end
    end
    return result
end

return plan
