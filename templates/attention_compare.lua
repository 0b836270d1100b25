-- attention_compare.lua: the family that measures an output of attention.forward against attention.reference's rows.
--
-- Runs where the rows already are, so that judging a candidate costs no copy. Written by hand, like the reference.

local kernel, judge = import("kernel"), import("attention_judge")
local THREADS, ROWS, size = judge.threads, judge.rows, judge.size

return {
    name = "attention.compare",
    doc = "internal: error over allowed error of each row of attention.forward",
    fields = {
        { name = "o_dtype", kind = "choice", role = "compiled", always = true, default = "f16",
          choices = { "f16", "bf16", "f32" }, doc = "element type of o" },
        { name = "head_dim_v", kind = "integer", role = "compiled", always = true, required = true, min = 1, max = 256,
          doc = "elements of a row" },
        { name = "lse", kind = "integer", role = "compiled", always = true, default = 0, min = 0, max = 1, doc = "compare lse too" },
        size("batch", 0), size("heads", 1), size("seqlen_q", 0),
    },
    templates = { {
        name = "rows", file = "attention_compare.hip", doc = "eight rows of one head a block",
        parameters = {}, constraints = {},
        default = function() return {} end,
        derive = function(c, p, t)
            return {
                threads = THREADS, rows = ROWS,
                shared = { { "partial_words", THREADS * 2, "fp64: squared errors by thread" } },
                pointers = {
                    o = "const " .. kernel.types[p.o_dtype].name .. " *", lse = "const float *",
                    reference = "const double *", reference_lse = "const double *", allowed = "const double *",
                    lse_allowed = "const double *", ratios = "float *",
                },
            }
        end,
        launch = function(c, p, t, d)
            local arguments = {}
            for _, name in ipairs({ "o", "lse", "reference", "reference_lse", "allowed", "lse_allowed", "ratios" }) do
                arguments[#arguments + 1] = { name, "pointer" }
            end
            for _, name in ipairs({ "o_batch_stride", "o_seq_stride", "o_head_stride" }) do
                arguments[#arguments + 1] = { name, "i64" }
            end
            for _, name in ipairs({ "heads", "seqlen_q" }) do
                arguments[#arguments + 1] = { name, "i32" }
            end
            return judge.launch(kernel, t, d, "attention_compare", arguments)
        end,
    } },
}
