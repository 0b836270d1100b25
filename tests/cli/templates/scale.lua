-- A family of few words for the program's tests: y = factor * x. Its space is small and fixed, so that what the program prints
-- about it does not change with the real families.
return {
    name = "test.scale",
    doc = "y = factor x",
    fields = {
        { name = "dtype", kind = "choice", role = "compiled", always = true, choices = { "f32" }, default = "f32", doc = "of x and y" },
        { name = "elements", kind = "integer", role = "size", always = true, required = true, min = 1, max = 1048576, doc = "how many" },
        { name = "factor", kind = "real", role = "scalar", default = 2.0, min = -1000.0, max = 1000.0, doc = "what x is multiplied by" },
        { name = "square", kind = "integer", role = "option", default = 0, min = 0, max = 1, doc = "no template has it" },
    },
    tensors = function(p)
        return {
            { name = "x", dtype = p.dtype, output = false, elements = p.elements },
            { name = "y", dtype = p.dtype, output = true, elements = p.elements },
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
            y[i] = p.factor * tensors.x[i]
            allowed[i] = 1e-6 * math.abs(y[i])
        end
        return { y = y }, { y = allowed }
    end,
    operations = function(p)
        return p.elements
    end,
    templates = {
        {
            name = "plain",
            file = "scale.hip",
            doc = "a thread an element",
            supports = function(p, t)
                if p.square ~= 0 then
                    return false, "square=1: no template squares; leave square out"
                end
                return true
            end,
            parameters = {
                { name = "threads", doc = "a block's threads", values = { 32, 64, 128 } },
                { name = "unroll", doc = "elements a thread", values = { 1, 2, 4 } },
            },
            constraints = {
                {
                    doc = "a block does at most 256 elements",
                    check = function(c, p, t)
                        if c.threads * c.unroll > 256 then
                            return false, "threads*unroll = " .. c.threads * c.unroll .. " is over 256"
                        end
                        return true
                    end,
                },
            },
            default = function(p, t)
                return { threads = 64, unroll = 1 }
            end,
            launch = function(c, p, t, d)
                return {
                    kernel = "test_scale",
                    threads = c.threads,
                    static_shared_bytes = 0,
                    dynamic_shared_bytes = 0,
                    arguments = {
                        { "x", "pointer" }, { "y", "pointer" }, { "elements", "i32" }, { "factor", "f32" }, { "origin_x", "u32" },
                    },
                    grid = { { { "elements", c.threads * c.unroll } }, {}, {} },
                    blocks_per_unit = 0,
                    fixed = {},
                    limits = {},
                    workspace = { constant = 0, factor = 0, dims = {} },
                }
            end,
        },
    },
}
