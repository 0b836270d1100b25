-- twice.lua - a family of one small kernel whose candidates misbehave by name: y = 2 x, in the mode that is asked for. The
-- tuner must find `right` whatever the others do. Tests put other modes and another factor into the two lines below; the
-- first mode is the default.
local modes = { "right", "early", "half", "forever", "fault" }
local factor = 2

local kernel = import("kernel")

-- static and dynamic bytes at and past 64 KiB
local shared = {
    static_fits = { 65536, 0 }, static_over = { 65540, 0 }, static_far = { 131072, 0 },
    dynamic_fits = { 0, 65536 }, dynamic_over = { 0, 65540 }, dynamic_far = { 0, 131072 },
    dynamic_huge = { 0, 1048576 },
}

return {
    name = "twice",
    doc = "y = 2 x",
    fields = {
        { name = "n", kind = "integer", role = "size", required = true, always = true, min = 0, max = 100000 },
    },
    tensors = function(p)
        return {
            { name = "x", dtype = "f32", output = false, elements = p.n },
            { name = "y", dtype = "f32", output = true, elements = p.n },
        }
    end,
    inputs = function(p, name, kind, random)
        local x, scale = {}, kind == "peaked" and 8 or 1
        for i = 1, p.n do
            x[i] = scale * random()
        end
        return x
    end,
    reference = function(p, t)
        local y, allowed = {}, {}
        for i = 1, p.n do
            y[i] = factor * t.x[i]
            allowed[i] = 0
        end
        return { y = y }, { y = allowed }
    end,
    operations = function(p)
        return p.n
    end,
    templates = { {
        name = "plain",
        file = "twice.hip",
        doc = "one thread an element",
        supports = function(p, t)
            return true
        end,
        parameters = { { name = "mode", doc = "what it does", values = modes } },
        constraints = {},
        default = function(p, t)
            return { mode = modes[1] }
        end,
        launch = function(c, p, t, d)
            local bytes = shared[c.mode] or { 0, 0 }
            return {
                kernel = "twice_" .. c.mode,
                threads = c.mode == "threads" and 1025 or 64,
                static_shared_bytes = bytes[1],
                dynamic_shared_bytes = bytes[2],
                arguments = { { "x", "pointer" }, { "y", "pointer" }, { "n", "i32" }, { "origin_x", "u32" } },
                grid = { { { "n", 64 } }, {}, {} },
                workspace = { constant = c.mode == "memory" and 8 << 30 or 0, factor = 0, dims = {} },
            }
        end,
    } },
}
