-- attention_reference.lua: the family by which attention.forward is judged on the device where the CPU would be too slow.
--
-- attention.reference computes rows in fp64, the naive fp32 algorithm beside them and the bound that follows from both
-- (docs/numerics.md). It is written by hand, apart from the kernels it judges: no shuffles, no matrix instructions, no fast
-- functions, exponential and Philox of its own. The CPU reference judges it in turn. Not to be tuned: it has one candidate.

local kernel, judge = import("kernel"), import("attention_judge")
local THREADS, ROWS, size = judge.threads, judge.rows, judge.size

local dtypes = { "f16", "bf16", "f32" }

local function choice(name)
    return { name = name, kind = "choice", role = "compiled", always = true, default = "f16", choices = dtypes,
             doc = "element type" }
end
local function dimension(name)
    return { name = name, kind = "integer", role = "compiled", always = true, required = true, min = 1, max = 256,
             doc = "elements of a row" }
end
local function pointers(p)
    local function reading(dtype)
        return "const " .. kernel.types[dtype].name .. " *"
    end
    return {
        q = reading(p.q_dtype), k = reading(p.k_dtype), v = reading(p.v_dtype),
        reference = "double *", reference_lse = "double *", allowed = "double *", lse_allowed = "double *",
    }
end

return {
    name = "attention.reference",
    doc = "internal: rows of attention.forward in fp64 with the bound that an output must keep",
    fields = {
        choice("q_dtype"), choice("k_dtype"), choice("v_dtype"), choice("o_dtype"),
        dimension("head_dim_qk"), dimension("head_dim_v"),
        { name = "causal", kind = "choice", role = "compiled", always = true, default = "none",
          choices = { "none", "top_left", "bottom_right" }, doc = "mask" },
        { name = "dropout", kind = "integer", role = "compiled", always = true, default = 0, min = 0, max = 1, doc = "drop weights" },
        size("batch", 0), size("heads", 1), size("kv_heads", 1), size("seqlen_q", 0), size("seqlen_k", 0),
    },
    templates = { {
        name = "rows", file = "attention_reference.hip", doc = "eight rows of one head a block",
        parameters = {}, constraints = {},
        default = function() return {} end,
        derive = function(c, p, t)
            local d = { threads = THREADS, rows = ROWS, pointers = pointers(p) }
            d.flushes = (t.emulates or t.name) == "gfx90a" -- its products take subnormal 16-bit elements as zero
            d.columns = (p.head_dim_v + THREADS - 1) // THREADS
            d.shared = {
                { "q_words", ROWS * p.head_dim_qk * 2, "fp64: rows of q" },
                { "weight_words", ROWS * THREADS * 2, "fp64: weights of a tile, then partial results" },
                { "naive_words", ROWS * THREADS, "fp32: the same for the naive algorithm" },
                { "partial_words", ROWS * THREADS * 2, "fp64: partial results of a reduction" },
                { "row_words", ROWS * 16, "fp64: results of reductions" },
            }
            return d
        end,
        launch = function(c, p, t, d)
            local arguments = {}
            for _, name in ipairs({ "q", "k", "v", "reference", "reference_lse", "allowed", "lse_allowed" }) do
                arguments[#arguments + 1] = { name, "pointer" }
            end
            for _, tensor in ipairs({ "q", "k", "v" }) do
                for _, axis in ipairs({ "batch", "seq", "head" }) do
                    arguments[#arguments + 1] = { tensor .. "_" .. axis .. "_stride", "i64" }
                end
            end
            for _, name in ipairs({ "seed", "offset" }) do
                arguments[#arguments + 1] = { name, "u64" }
            end
            for _, name in ipairs({ "heads", "kv_heads", "seqlen_q", "seqlen_k" }) do
                arguments[#arguments + 1] = { name, "i32" }
            end
            arguments[#arguments + 1] = { "dropout_threshold", "u32" }
            arguments[#arguments + 1] = { "scale", "f32" }
            arguments[#arguments + 1] = { "dropout_scale", "f32" }
            return judge.launch(kernel, t, d, "attention_reference", arguments)
        end,
    } },
}
