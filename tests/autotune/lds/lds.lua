-- Accesses to shared memory with known conflicts: each lane of one wave writes one place and reads it back ROUNDS times. What the
-- lanes' places are is the parameter `places`; the test knows the clocks of each by every rule.
return {
    name = "test.lds",
    doc = "y = x through shared memory, each lane its own WORDS words",
    fields = {
        { name = "elements", kind = "integer", role = "size", always = true, required = true, min = 1, max = 1024, doc = "of x" },
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
            y[i], allowed[i] = tensors.x[i], 0.0
        end
        return { y = y }, { y = allowed }
    end,
    operations = function(p)
        return p.elements
    end,
    templates = {
        {
            name = "places",
            file = "lds.hip",
            parameters = {
                { name = "words", doc = "of a lane's access", values = { 1, 2, 4 } },
                { name = "places", doc = "where a lane's words are",
                    values = { "dense", "rows", "padded", "xor", "same", "apart", "quads", "even" } },
                { name = "rounds", doc = "reads between barriers", values = { 1, 3 } },
                { name = "by", doc = "what moves the words", values = { "words", "matrices", "copies" } },
            },
            constraints = {},
            default = function(p, t)
                return { words = 4, places = "dense", rounds = 3, by = "words" }
            end,
            launch = function(c, p, t, d)
                return {
                    kernel = "test_lds",
                    threads = t.wave,
                    static_shared_bytes = 64 * 144,
                    dynamic_shared_bytes = 0,
                    arguments = { { "x", "pointer" }, { "y", "pointer" }, { "elements", "i32" }, { "origin_x", "u32" } },
                    grid = { { { "elements", 256 } }, {}, {} },
                    blocks_per_unit = 0,
                    fixed = {},
                    limits = {},
                    workspace = { constant = 0, factor = 0, dims = {} },
                }
            end,
        },
    },
}
