-- instruction_wmma_gfx12.lua: matrix instructions of RDNA 4, waves of 32.
--
-- Layout: RDNA 4 ISA document, chapter on wave matrix multiply accumulate.

return {
    instruction = "wmma_gfx12",
    doc = "matrix instructions of RDNA 4: gfx1200, gfx1201",
    names = { "wmma_gfx12_16x16x16" },
    forms = function(t, dtype)
        if t.matrix ~= "wmma_gfx12" or dtype ~= "f16" and dtype ~= "bf16" then
            return {}
        end
        local function depth(l, e) return 8 * (e // 4) + 4 * (l // 16) + e % 4 end
        return { {
            name = "wmma_gfx12_16x16x16", family = "wmma_gfx12", call = "wmma_gfx12_f32_16x16x16_" .. dtype,
            lanes = 32, bytes = 2, m = 16, n = 16, k = 16, keys_first = true,
            a_elements = 8, b_elements = 8, c_elements = 8,
            a = function(l, e) return l % 16, depth(l, e) end,
            b = function(l, e) return depth(l, e), l % 16 end,
            c = function(l, r) return 8 * (l // 16) + r, l % 16 end,
        } }
    end,
}
