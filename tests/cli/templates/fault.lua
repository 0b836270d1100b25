-- y = x by a kernel that has the fault asked for: what `attune verify` says of each.
return {
    name = "test.fault",
    doc = "y = x, or not",
    fields = {
        {
            name = "fault",
            kind = "choice",
            role = "compiled",
            always = true,
            choices = { "none", "compile", "crash", "hang", "nan", "wrong", "beyond", "race" },
            default = "none",
            doc = "what is wrong with the kernel",
        },
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
            allowed[i] = 1e-6
        end
        return { y = y }, { y = allowed }
    end,
    operations = function(p)
        return p.elements
    end,
    templates = {
        {
            name = "plain",
            file = "fault.hip",
            doc = "a thread an element",
            supports = function(p, t)
                return true
            end,
            parameters = { { name = "threads", doc = "a block's threads", values = { 32, 64 } } },
            constraints = {},
            default = function(p, t)
                return { threads = 32 }
            end,
            launch = function(c, p, t, d)
                return {
                    kernel = "test_fault",
                    threads = c.threads,
                    static_shared_bytes = 0,
                    dynamic_shared_bytes = 0,
                    arguments = { { "x", "pointer" }, { "y", "pointer" }, { "elements", "i32" }, { "origin_x", "u32" } },
                    grid = { { { "elements", c.threads } }, {}, {} },
                    blocks_per_unit = 0,
                    fixed = {},
                    limits = {},
                    workspace = { constant = 0, factor = 0, dims = {} },
                }
            end,
        },
    },
}
