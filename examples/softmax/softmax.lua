-- softmax.lua - the family softmax: y = softmax(x) along the rows of a [rows, columns] matrix.
--
-- A family of its own in two files and no line of C. docs/families.md walks through it.

local kernel = import("kernel") -- attune's library for what differs by vendor: entry, element types, host note

local function bytes(p)
    return kernel.types[p.dtype].bytes
end

local function elements_of_a_lane(c, p)
    return (p.columns + c.lanes * c.vector - 1) // (c.lanes * c.vector) * c.vector
end

-- ---- the computation, for checking candidates ----

local rounding = { f16 = 2.0 ^ -11, bf16 = 2.0 ^ -8, f32 = 2.0 ^ -23 }
local smallest = { f16 = 2.0 ^ -24, bf16 = 2.0 ^ -126, f32 = 2.0 ^ -126 } -- results below may be flushed to zero

local function reference(p, t)
    local y, allowed = {}, {}
    for row = 0, p.rows - 1 do
        local first, last = row * p.columns + 1, (row + 1) * p.columns
        local largest, sum = -math.huge, 0.0
        for i = first, last do
            largest = math.max(largest, t.x[i])
        end
        for i = first, last do
            sum = sum + math.exp(t.x[i] - largest)
        end
        for i = first, last do
            y[i] = math.exp(t.x[i] - largest) / sum
            -- the result's rounding, and fp32's in an exponent of that size
            allowed[i] = y[i] * (rounding[p.dtype] + 2.0 ^ -20 * (1 + largest - t.x[i])) + smallest[p.dtype]
        end
    end
    return { y = y }, { y = allowed }
end

-- kind: "normal", "peaked" (one value dominates), "structured" (the exact answer is one-hot)
local function inputs(p, name, kind, random)
    local x = {}
    for row = 0, p.rows - 1 do
        for column = 0, p.columns - 1 do
            local value = kind == "peaked" and 8 * random() or random()
            if kind == "structured" then
                value = column == row * 7 % p.columns and 0 or -200
            end
            x[#x + 1] = value
        end
    end
    return x
end

-- ---- the space ----

local parameters = {
    { name = "threads", doc = "threads a block", values = { 64, 128, 256, 512 } },
    { name = "lanes", doc = "lanes of one wave that share a row", values = { 8, 16, 32, 64 } },
    { name = "vector", doc = "elements moved by one load or store", values = { 1, 2, 4, 8 } },
    { name = "keep", doc = "the row between passes: held in registers, or read again", values = { "registers", "memory" } },
}

local constraints = {
    {
        doc = "a row's lanes lie in one wave",
        check = function(c, p, t)
            if c.lanes > t.wave then
                return false, string.format("lanes=%d is more than the wave of %d of %s", c.lanes, t.wave, t.name)
            end
            return true
        end,
    },
    {
        doc = "columns are whole vectors",
        check = function(c, p, t)
            if p.columns % c.vector ~= 0 then
                return false, string.format("columns=%d is no multiple of vector=%d", p.columns, c.vector)
            end
            return true
        end,
    },
    {
        doc = "a vector is as aligned as the rows are",
        check = function(c, p, t)
            local size = c.vector * bytes(p)
            if size > p.alignment then
                return false, string.format("vector=%d is %d bytes, the rows are aligned to %d", c.vector, size, p.alignment)
            end
            return true
        end,
    },
    {
        doc = "a kept row fits in registers",
        check = function(c, p, t)
            local count = elements_of_a_lane(c, p)
            if c.keep == "registers" and count > 64 then
                return false, string.format("keep=registers: %d elements a lane > 64", count)
            end
            return true
        end,
    },
    {
        doc = "every lane has work",
        check = function(c, p, t)
            if c.lanes > 8 and (c.lanes // 2) * c.vector >= p.columns then
                return false, string.format("lanes=%d vector=%d: half the lanes cover columns=%d", c.lanes, c.vector, p.columns)
            end
            return true
        end,
    },
}

-- the widest vector that fits, half a wave or less to a row, the row in registers where it fits
local function default(p, t)
    local c = { threads = 256, lanes = 8, vector = 1, keep = "registers" }
    for _, vector in ipairs({ 2, 4, 8 }) do
        if p.columns % vector == 0 and vector * bytes(p) <= p.alignment then
            c.vector = vector
        end
    end
    while c.lanes < 32 and c.lanes * c.vector < p.columns do
        c.lanes = c.lanes * 2
    end
    if elements_of_a_lane(c, p) > 64 then
        c.keep = "memory"
    end
    return c
end

local function derive(c, p, t)
    return {
        rows = c.threads // c.lanes, -- of a block
        steps = elements_of_a_lane(c, p) // c.vector,
        words = c.vector * bytes(p) // 4, -- of a vector; 0: one 16-bit element
    }
end

local function launch(c, p, t, d)
    return {
        kernel = "softmax_rows", threads = c.threads, static_shared_bytes = 0, dynamic_shared_bytes = 0,
        arguments = { { "x", "pointer" }, { "y", "pointer" }, { "rows", "i32" }, { "origin_x", "u32" } },
        grid = { { { "rows", d.rows } }, {}, {} },
    }
end

return {
    name = "softmax",
    doc = "y = softmax(x) along the rows of a matrix",
    fields = {
        { name = "dtype", kind = "choice", role = "compiled", always = true, default = "f16", choices = { "f16", "bf16", "f32" } },
        { name = "rows", kind = "integer", role = "size", required = true, always = true, min = 0, max = 2147483647 },
        { name = "columns", kind = "integer", role = "compiled", required = true, always = true, min = 1, max = 1048576 },
        { name = "alignment", kind = "integer", role = "compiled", default = 4, min = 2, max = 16,
            doc = "bytes that divide the addresses of x and y and a row's size" },
    },
    tensors = function(p)
        return {
            { name = "x", dtype = p.dtype, output = false, elements = p.rows * p.columns },
            { name = "y", dtype = p.dtype, output = true, elements = p.rows * p.columns },
        }
    end,
    inputs = inputs,
    reference = reference,
    operations = function(p)
        return 5.0 * p.rows * p.columns -- maximum, subtract, exponential, sum, multiply
    end,
    templates = { {
        name = "rows",
        file = "softmax.hip",
        doc = "a few lanes a row, no shared memory",
        supports = function(p, t)
            if p.alignment % bytes(p) ~= 0 or p.columns * bytes(p) % p.alignment ~= 0 then
                return false, string.format("alignment=%d: must be a multiple of an element's %d bytes and divide a row's %d",
                    p.alignment, bytes(p), p.columns * bytes(p))
            end
            return true
        end,
        parameters = parameters,
        constraints = constraints,
        default = default,
        derive = derive,
        launch = launch,
    } },
}
