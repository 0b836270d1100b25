-- instruction_wmma_gfx11.lua: matrix instructions of RDNA 3, waves of 32. Lanes l and l + 16 must hold the same operands.
--
-- Layout: RDNA 3 ISA document, chapter on wave matrix multiply accumulate.

return {
    instruction = "wmma_gfx11",
    doc = "matrix instructions of RDNA 3 and 3.5 (gfx11)",
    names = { "wmma_16x16x16" },
    forms = function(t, dtype)
        if t.matrix ~= "wmma_gfx11" or dtype ~= "f16" and dtype ~= "bf16" then
            return {}
        end
        return { {
            name = "wmma_16x16x16", family = "wmma_gfx11", call = "wmma_gfx11_f32_16x16x16_" .. dtype,
            lanes = 32, bytes = 2, m = 16, n = 16, k = 16, keys_first = true,
            a_elements = 16, b_elements = 16, c_elements = 8, copies = 2,
            a = function(l, e) return l % 16, e end,
            b = function(l, e) return e, l % 16 end,
            c = function(l, r) return 2 * r + l // 16, l % 16 end,
        } }
    end,
}
