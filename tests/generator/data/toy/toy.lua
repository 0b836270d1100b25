-- toy.lua - a family small enough to predict every byte of it.
local layout = import("library/layout")

return {
    name = "toy.scale",
    doc = "y = factor x",
    fields = {
        { name = "dtype", kind = "choice", role = "compiled", always = true, default = "f32", choices = { "f32", "f16" } },
        { name = "count", kind = "integer", role = "size", required = true, always = true, min = 1, max = 1048576 },
        { name = "window", kind = "integer", role = "compiled", default = 0, min = 0, max = 9 },
        { name = "factor", kind = "real", role = "scalar", default = 0.125, min = -1000, max = 1000 },
    },
    tensors = function(p)
        return {
            { name = "x", dtype = p.dtype, output = false, elements = p.count },
            { name = "y", dtype = p.dtype, output = true, elements = p.count },
        }
    end,
    inputs = function(p, name, kind, random)
        local list = {}
        for i = 1, p.count do
            list[i] = kind == "structured" and i or random()
        end
        return list
    end,
    reference = function(p, t)
        local y = {}
        for i, x in ipairs(t.x) do
            y[i] = p.factor * x
        end
        return { y = y }, { y = 0.001 }
    end,
    operations = function(p)
        return p.count
    end,
    templates = {
        {
            name = "plain",
            file = "toy.hip",
            doc = "one element a thread and step",
            supports = function(p, t)
                if p.window ~= 0 then
                    return false, "window=" .. p.window .. " is not built; leave window at 0"
                end
                return true
            end,
            parameters = {
                { name = "threads", doc = "threads a block", values = { 32, 64, 128, 256 } },
                { name = "unroll", doc = "elements a thread", values = { 1, 2, 4 } },
                { name = "order", doc = "which element first", values = { "up", "down", "fused" } },
                { name = "wide", doc = "64-bit index", values = { "no", "yes" } },
            },
            constraints = {
                {
                    doc = "whole waves",
                    check = function(c, p, t)
                        if c.threads % t.wave ~= 0 then
                            return false, string.format("threads=%d is no multiple of the wave of %d", c.threads, t.wave)
                        end
                        return true
                    end,
                },
                {
                    doc = "a block has at most 512 elements",
                    check = function(c, p, t)
                        if c.threads * c.unroll > 512 then
                            return false, string.format("threads*unroll = %d > 512", c.threads * c.unroll)
                        end
                        return true
                    end,
                },
                {
                    doc = "fused order needs dot2",
                    check = function(c, p, t)
                        if c.order == "fused" and not t.dot2 then
                            return false, "order=fused needs dot2, which " .. t.name .. " lacks"
                        end
                        return true
                    end,
                },
            },
            default = function(p, t)
                return { threads = 128, unroll = 2, order = "up", wide = "no" }
            end,
            derive = function(c, p, t)
                return { element = layout.element(p.dtype), third = 1 / 3, block = c.threads * c.unroll }
            end,
            launch = function(c, p, t, d)
                return {
                    kernel = "toy_scale",
                    threads = c.threads,
                    static_shared_bytes = 0,
                    dynamic_shared_bytes = 0,
                    arguments = layout.arguments,
                    grid = { { { "count", d.block } }, {}, {} },
                }
            end,
        },
    },
}
