-- instructions.lua: the instruction families, and what a template derives from a form's register layout.
--
-- A family (instruction_*.lua) gives forms: an instruction D = A B + C of one wave with its layouts as functions of lane and
-- element. Everything else that a kernel needs (which row and chunk a lane loads, which lanes share a query, in which order keys
-- must stand so that the scores of one product are an operand of the next) is derived here by evaluating those functions for
-- every lane, and an assumption that does not hold is an error, never wrong numbers. A form that is no such instruction at all is one
-- before (instructions.check); that a layout is the hardware's, and not another, only a table of the hardware's can tell.
--
-- Terms: a chunk is 16 bytes of a row; a group are the lanes that hold the same depth of an operand.

local instructions = {}

local families = {
    import("instruction_mfma"), import("instruction_wmma_gfx11"), import("instruction_wmma_gfx12"),
    import("instruction_mma_sync"), import("instruction_dot2"), import("instruction_fma"),
}

-- names of all forms of all families, in the order of preference
instructions.names = {}
for _, family in ipairs(families) do
    for _, name in ipairs(family.names) do
        instructions.names[#instructions.names + 1] = name
    end
end

local dtype_bytes = { f16 = 2, bf16 = 2, f32 = 4 }

-- What every form must be, or an error: a matrix instruction's operands and result lie in the lanes `copies` times and once, place
-- by place; a form of scalar instructions has each result once, in a lane that holds all of its row and of its column.
function instructions.check(form, t, dtype)
    local where = form.name .. " of " .. t.name .. " for " .. dtype .. ": "
    local function must(holds, format, ...)
        if not holds then
            error(where .. string.format(format, ...))
        end
    end
    must(form.lanes == t.wave, "lanes=%d, but a wave has %d", form.lanes, t.wave)
    local bytes = form.converts and 4 or dtype_bytes[dtype]
    must(form.bytes == bytes, "bytes=%d, but its elements have %d", form.bytes, bytes)
    -- how often rows x columns places are held by the lanes from first to last: each equally often, no other
    local function held(name, first, last, rows, columns)
        local elements, times = form[name .. "_elements"], {}
        for lane = first, last do
            for e = 0, elements - 1 do
                local i, j = form[name](lane, e)
                must(rows.has[i] and columns.has[j], "%s(%d, %d) is (%d, %d), outside its matrix", name, lane, e, i, j)
                local place = i << 16 | j
                times[place] = (times[place] or 0) + 1
            end
        end
        local count
        for _, i in ipairs(rows) do
            for _, j in ipairs(columns) do
                local here = times[i << 16 | j] or 0
                count = count or here
                must(here == count, "%s holds (%d, %d) %d times, others %d", name, i, j, here, count)
            end
        end
        return count
    end
    local function add(set, x)
        if not set.has[x] then
            set.has[x] = true
            set[#set + 1] = x
        end
    end
    local function all(count)
        local set = { has = {} }
        for x = 0, count - 1 do
            add(set, x)
        end
        return set
    end
    local last, m, n, k = form.lanes - 1, all(form.m), all(form.n), all(form.k)
    must(held("c", 0, last, m, n) == 1, "c must hold each of %d x %d results once", form.m, form.n)
    if not form.multiply then
        local copies = form.copies or 1
        must(held("a", 0, last, m, k) == copies, "a must hold each of %d x %d elements %d times", form.m, form.k, copies)
        must(held("b", 0, last, k, n) == copies, "b must hold each of %d x %d elements %d times", form.k, form.n, copies)
        return
    end
    for lane = 0, last do
        local rows, columns = all(0), all(0)
        for r = 0, form.c_elements - 1 do
            local i, j = form.c(lane, r)
            add(rows, i)
            add(columns, j)
        end
        must(held("a", lane, lane, rows, k) == 1, "a of lane %d must be whole rows of its results", lane)
        must(held("b", lane, lane, k, columns) == 1, "b of lane %d must be whole columns of its results", lane)
    end
end

-- A family gives a target the same forms every time, and a space asks for them at each of its points.
local known = {}

-- forms that a target has for operands of dtype, checked; nobody changes the list
function instructions.forms(t, dtype)
    local key = t.name .. " " .. dtype
    if not known[key] then
        local list = {}
        for _, family in ipairs(families) do
            for _, form in ipairs(family.forms(t, dtype)) do
                instructions.check(form, t, dtype)
                list[#list + 1] = form
            end
        end
        known[key] = list
    end
    return known[key]
end

-- the form of that name; else nil and a reason that lists what the target has
function instructions.find(t, dtype, name)
    local names = {}
    for index, form in ipairs(instructions.forms(t, dtype)) do
        if form.name == name then
            return form
        end
        names[index] = form.name
    end
    local has = #names == 0 and "none" or table.concat(names, ", ")
    return nil, "multiply=" .. name .. ": " .. t.name .. " has no such instruction for " .. dtype .. "; it has " .. has
end

-- C text of an integer function that is a sum over the bits of its argument, without its value at 0: "lane / 16 * 4"
function instructions.linear(f, count, variable)
    local base, weights, bits = f(0), {}, 0
    while 1 << bits < count do
        weights[bits] = f(1 << bits) - base
        bits = bits + 1
    end
    for x = 0, count - 1 do
        local sum = base
        for bit = 0, bits - 1 do
            sum = sum + (x >> bit & 1) * weights[bit]
        end
        assert(sum == f(x), "a layout is not a sum over the bits of " .. variable)
    end
    local terms, bit = {}, 0
    while bit < bits do
        local last = bit
        if weights[bit] ~= 0 then
            while last + 1 < bits and weights[last + 1] == 2 * weights[last] do
                last = last + 1
            end
            local text = variable
            if bit > 0 then
                text = text .. " / " .. (1 << bit)
            end
            if last < bits - 1 then
                text = text .. " % " .. (1 << last - bit + 1)
            end
            if weights[bit] ~= 1 then
                text = text .. " * " .. weights[bit]
            end
            terms[#terms + 1] = text
        end
        bit = last + 1
    end
    return #terms == 0 and "0" or table.concat(terms, " + ")
end
local linear = instructions.linear

-- rank of f's value at every x among its different values, ascending; and how many there are
local function ranks(f, count)
    local values, seen = {}, {}
    for x = 0, count - 1 do
        if not seen[f(x)] then
            seen[f(x)] = true
            values[#values + 1] = f(x)
        end
    end
    table.sort(values)
    local rank = {}
    for index, value in ipairs(values) do
        rank[value] = index - 1
    end
    return function(x) return rank[f(x)] end, #values
end

-- An operand's elements as rows of the tensor it comes from. layout(lane, e) gives row and depth.
local function operand(layout, elements, lanes, per_word)
    local o = { rows = {}, words = {} }
    local row_of, order, index_of = {}, {}, {}
    for e = 0, elements - 1 do
        local row = layout(0, e)
        if not index_of[row] then
            o.rows[#o.rows + 1] = { first = e, count = 0, offset = row - layout(0, 0) }
            index_of[row] = #o.rows
        end
        local r = o.rows[index_of[row]]
        row_of[e], order[e] = index_of[row], r.count
        r.count = r.count + 1
    end
    o.row_elements = elements // #o.rows
    for lane = 0, lanes - 1 do
        for e = 0, elements - 1 do
            local row, depth = layout(lane, e)
            local first_row, first_depth = layout(lane, o.rows[1].first)
            assert(row == first_row + o.rows[row_of[e]].offset, "rows of a lane must keep their distance")
        end
    end
    o.row = function(lane) return (layout(lane, o.rows[1].first)) end
    o.row_text = linear(o.row, lanes, "lane")
    o.group, o.groups = ranks(function(lane)
        local _, depth = layout(lane, 0)
        return depth
    end, lanes)
    o.group_text = linear(o.group, lanes, "lane")
    -- depth by group and order in the row: the two operands of a product must agree on it
    o.depth = {}
    for lane = 0, lanes - 1 do
        for e = 0, elements - 1 do
            local _, depth = layout(lane, e)
            local key = o.group(lane) * o.row_elements + order[e]
            assert(o.depth[key] == nil or o.depth[key] == depth, "lanes of a group must hold the same depths")
            o.depth[key] = depth
        end
    end
    for word = 0, elements // per_word - 1 do
        local e = word * per_word
        assert(order[e] % per_word == 0 and row_of[e] == row_of[e + per_word - 1], "a word must lie in one row")
        o.words[word + 1] = { row = row_of[e] - 1, word = order[e] // per_word }
    end
    return o
end

-- What a flash attention kernel needs of a form. Scores are keys x queries fragments (keys_first: A is k, B is q; else A is q and
-- B is k); the output is columns x queries with the weights where q was. Lanes hold the same queries in both.
local function derive(form)
    local lanes, per_word = form.lanes, form.bytes == 4 and 1 or 2
    local first = form.keys_first
    local function a(lane, e) return form.a(lane, e) end
    local function b(lane, e)
        local k, j = form.b(lane, e)
        return j, k
    end
    local left = operand(a, form.a_elements, lanes, per_word)
    local right = operand(b, form.b_elements, lanes, per_word)
    assert(left.groups == right.groups and left.group_text == right.group_text and left.row_elements == right.row_elements)
    for key, depth in ipairs(left.depth) do
        assert(right.depth[key] == depth, "the two operands must agree on the order of depths")
    end
    local f = { form = form, lanes = lanes, keys_first = first, chunk = 16 // form.bytes, per_word = per_word }
    f.k, f.q = first and left or right, first and right or left
    f.keys, f.queries = first and form.m or form.n, first and form.n or form.m
    f.columns, f.elements = f.keys, form.c_elements
    f.groups, f.group_text, f.row_elements = left.groups, left.group_text, left.row_elements
    f.lane_chunks = math.max(1, f.row_elements // f.chunk) -- chunks a lane takes of a row for a step in depth
    f.calls = math.max(1, f.chunk // f.row_elements)        -- multiplies for such a step
    f.step_chunks = f.groups * f.lane_chunks

    -- scores of a lane
    local function key(lane, r)
        local i, j = form.c(lane, r)
        return first and i or j
    end
    local function query(lane, r)
        local i, j = form.c(lane, r)
        return first and j or i
    end
    f.key, f.query = key, query
    local offsets, rows = {}, {}
    f.row_offsets, f.row_of, f.sequence = {}, {}, {}
    for r = 0, f.elements - 1 do
        local offset = query(0, r) - query(0, 0)
        if not rows[offset] then
            f.row_offsets[#f.row_offsets + 1] = offset
            rows[offset] = #f.row_offsets
            f.sequence[#f.row_offsets] = {}
        end
        f.row_of[r] = rows[offset] - 1
        f.sequence[rows[offset]][#f.sequence[rows[offset]] + 1] = r
        offsets[r] = key(0, r) - key(0, 0)
        for lane = 0, lanes - 1 do
            assert(key(lane, r) == key(lane, 0) + offsets[r] and query(lane, r) == query(lane, 0) + offset)
        end
    end
    f.rows = #f.row_offsets
    f.key_offset = offsets
    f.key_text = linear(function(lane) return key(lane, 0) end, lanes, "lane")
    f.key_element_text = linear(function(r) return offsets[r] end, f.elements, "r")
    f.row_element_text = linear(function(r) return f.row_of[r] end, f.elements, "r")
    f.query_text = linear(function(lane) return query(lane, 0) end, lanes, "lane")
    f.query_row_text = linear(function(i) return f.row_offsets[i + 1] end, f.rows, "i")
    f.masks = {} -- lanes that share a query differ in these bits
    local mask = 1
    while mask < lanes do
        if query(mask, 0) == query(0, 0) then
            f.masks[#f.masks + 1] = mask
        end
        mask = mask * 2
    end
    f.sharers = 1 << #f.masks
    f.row_scores = f.elements // f.rows
    f.owner, f.owners = ranks(function(lane) return key(lane, 0) end, lanes)

    -- how scores become the weights' operand, which is laid out as q's
    f.route = "lds"
    local same_rows = #f.q.rows == f.rows
    for lane = 0, lanes - 1 do
        same_rows = same_rows and f.q.row(lane) == query(lane, 0)
    end
    assert(same_rows, "a lane's queries are not those of its weights")
    if f.owners == f.sharers and f.owners == f.groups then
        f.route = "registers"
        for lane = 0, lanes - 1 do
            if f.q.group(lane) ~= f.owner(lane) then
                f.route = "lds"
            end
        end
    elseif f.owners == 2 and f.groups == 1 and f.sharers == 2 then
        f.route = "exchange"
    end
    if f.route ~= "lds" then -- keys of one lane's chunk must be even pairs of neighbours in its sequence
        assert(f.row_scores % per_word == 0)
    end
    -- key of element n of group g's sequence over the fragments of a tile
    local owner_key = {}
    for lane = 0, lanes - 1 do
        owner_key[f.owner(lane)] = key(lane, 0)
    end
    f.sequence_key = function(g, n)
        if f.route == "registers" then
            return n // f.row_scores * f.keys + owner_key[g] + offsets[f.sequence[1][n % f.row_scores + 1]]
        elseif f.route == "exchange" then
            local within = n % (2 * f.row_scores)
            return n // (2 * f.row_scores) * f.keys + owner_key[within // f.row_scores]
                + offsets[f.sequence[1][within % f.row_scores + 1]]
        end
        -- through shared memory any order will do: the keys of a lane are neighbours, so that it writes them at once
        return n // f.keys * f.keys + owner_key[n % f.keys // f.row_scores] + offsets[f.sequence[1][n % f.row_scores + 1]]
    end
    -- keys at place j of chunk number `chunk` of a column: where v must be put
    f.chunk_key = function(chunk, j)
        if f.route == "lds" then
            return f.sequence_key(0, chunk * f.chunk + j)
        end
        return f.sequence_key(chunk % f.groups, chunk // f.groups * f.chunk + j)
    end
    f.chunk_keys = f.chunk * f.groups                             -- keys that a chunk of every group covers
    f.tile_keys = math.max(f.chunk_keys * f.lane_chunks, f.keys) -- what a tile's keys must be a multiple of

    -- columns of the output: those of a lane
    local column_offsets = {}
    f.column_group, f.column_groups = f.owner, f.owners
    f.row_columns = f.row_scores
    for n = 1, f.row_columns do
        column_offsets[n] = offsets[f.sequence[1][n]]
    end
    local place = {} -- of a fragment's column: its lanes' group and the index there
    local place_of = {}
    for lane = 0, lanes - 1 do
        for n = 1, f.row_columns do
            place[key(lane, 0) + column_offsets[n]] = { f.owner(lane), n - 1 }
            place_of[f.owner(lane) * f.row_columns + n - 1] = key(lane, 0) + column_offsets[n]
        end
    end
    -- the tensor's column at place x of fragment number `fragment`, when `together` fragments share out their columns
    f.column = function(fragment, x, together)
        local group, n = place[x][1], place[x][2]
        return fragment // together * together * f.columns + group * together * f.row_columns
            + fragment % together * f.row_columns + n
    end
    -- the inverse: fragment and place of a column, as a number of columns. The lanes that read v then read neighbouring rows of
    -- shared memory, as they do of k.
    f.column_place = function(column, together)
        local run = together * f.row_columns -- of one group
        local group, within = column % (together * f.columns) // run, column % run
        local fragment = column // (together * f.columns) * together + within // f.row_columns
        return fragment * f.columns + place_of[group * f.row_columns + within % f.row_columns]
    end
    f.element_of = {} -- index of element r among its row's
    for _, sequence in ipairs(f.sequence) do
        for n, r in ipairs(sequence) do
            f.element_of[r] = n - 1
        end
    end
    return f
end

-- A form gives the same fragment every time, and a space asks for it at each of its points.
local derived = {}
function instructions.fragment(form)
    local key = form.family .. " " .. form.name .. " " .. (form.call or "") .. " " .. form.lanes .. " " .. form.bytes
    derived[key] = derived[key] or derive(form)
    return derived[key]
end

return instructions
