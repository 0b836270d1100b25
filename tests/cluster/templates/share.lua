-- y = x by kernels of which the default is wrong, and every third mode: what is chosen is another one, and belongs to one
-- rank alone.
return {
    name = "test.share",
    doc = "y = x, or not",
    fields = {
        { name = "elements", kind = "integer", role = "size", always = true, required = true, min = 8, max = 65536, doc = "how many" },
    },
    tensors = function(p)
        return {
            { name = "x", dtype = "f32", output = false, elements = p.elements },
            { name = "y", dtype = "f32", output = true, elements = p.elements },
        }
    end,
    inputs = function(p, name, kind, random)
        local values = {}
        for i = 1, p.elements do
            values[i] = random()
        end
        return values
    end,
    reference = function(p, tensors)
        local y, allowed = {}, {}
        for i = 1, p.elements do
            y[i] = tensors.x[i]
            allowed[i] = 0
        end
        return { y = y }, { y = allowed }
    end,
    operations = function(p)
        return p.elements
    end,
    templates = {
        {
            name = "plain",
            file = "share.hip",
            doc = "a thread an element",
            supports = function(p, t)
                return true
            end,
            parameters = {
                { name = "mode", doc = "which kernel", values = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 } },
            },
            constraints = {},
            default = function(p, t)
                return { mode = 1 }
            end,
            launch = function(c, p, t, d)
                return {
                    kernel = "test_share_" .. c.mode,
                    threads = 64,
                    static_shared_bytes = 0,
                    dynamic_shared_bytes = 0,
                    arguments = { { "x", "pointer" }, { "y", "pointer" }, { "elements", "i32" }, { "origin_x", "u32" } },
                    grid = { { { "elements", 64 } }, {}, {} },
                    blocks_per_unit = 0,
                    fixed = {},
                    limits = {},
                    workspace = { constant = 0, factor = 0, dims = {} },
                }
            end,
        },
    },
}
