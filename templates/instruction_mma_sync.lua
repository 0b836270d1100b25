-- instruction_mma_sync.lua: mma.sync of NVIDIA's tensor cores.
--
-- Layouts: PTX ISA, matrix fragments for mma.m16n8k16 and mma.m16n8k8 with 16-bit floats. g = lane / 4, t = lane % 4. The weights
-- must be the left operand, where an accumulator's layout is the operand's: queries are rows.

local function form(t, depth, dtype)
    return {
        name = "mma_16x8x" .. depth, family = "mma_sync", call = "mma_f32_16x8x" .. depth .. "_" .. dtype,
        lanes = 32, bytes = 2, m = 16, n = 8, k = depth, keys_first = false,
        a_elements = depth // 2, b_elements = depth // 4, c_elements = 4,
        a = function(l, e) return l // 4 + 8 * (e // 2 % 2), 2 * (l % 4) + e % 2 + 8 * (e // 4) end,
        b = function(l, e) return 2 * (l % 4) + e % 2 + 8 * (e // 2), l // 4 end,
        c = function(l, r) return l // 4 + 8 * (r // 2), 2 * (l % 4) + r % 2 end,
        transposing_loads = true, -- ldmatrix.trans: v stays in rows
    }
end

return {
    instruction = "mma_sync",
    doc = "tensor cores through mma.sync: sm_75 (16x8x8, f16 only) and all later",
    names = { "mma_16x8x16", "mma_16x8x8" },
    forms = function(t, dtype)
        if t.matrix ~= "mma_sync" or dtype ~= "f16" and dtype ~= "bf16" then
            return {}
        elseif t.matrix_level >= 80 then
            return { form(t, 16, dtype) }
        end
        return dtype == "f16" and { form(t, 8, dtype) } or {}
    end,
}
