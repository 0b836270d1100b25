-- instruction_mfma.lua: matrix instructions of AMD's CDNA processors, waves of 64.
--
-- Layouts: AMD Instinct ISA documents (MI100, MI200, MI300, CDNA 4), chapter on matrix arithmetic, and AMD's matrix instruction
-- calculator. l is the lane, e a 16-bit element of an operand, r a register of C and D.

local function form(size, depth, elements, dtype)
    local groups = 64 // size
    return {
        name = "mfma_" .. size .. "x" .. size .. "x" .. depth, family = "mfma",
        call = "mfma_f32_" .. size .. "x" .. size .. "x" .. depth .. "_" .. dtype,
        lanes = 64, bytes = 2, m = size, n = size, k = depth, keys_first = true,
        a_elements = elements, b_elements = elements, c_elements = size * size // 64,
        a = function(l, e) return l % size, elements * (l // size) + e end,
        b = function(l, e) return elements * (l // size) + e, l % size end,
        c = function(l, r) return 4 * groups * (r // 4) + 4 * (l // size) + r % 4, l % size end,
    }
end

return {
    instruction = "mfma",
    doc = "matrix instructions of CDNA: gfx908, gfx90a, gfx942, gfx950",
    names = { "mfma_32x32x16", "mfma_16x16x32", "mfma_32x32x8", "mfma_16x16x16", "mfma_32x32x4", "mfma_16x16x8" },
    forms = function(t, dtype)
        if t.matrix ~= "mfma" or dtype ~= "f16" and dtype ~= "bf16" then
            return {}
        end
        local list = {}
        if t.matrix_level >= 4 then -- gfx950's wide forms
            list = { form(32, 16, 8, dtype), form(16, 32, 8, dtype) }
        end
        if dtype == "bf16" and t.matrix_level == 1 then -- gfx908: two elements a lane
            list[1], list[2] = form(32, 4, 2, dtype), form(16, 8, 2, dtype)
        else
            list[#list + 1], list[#list + 2] = form(32, 8, 4, dtype), form(16, 16, 4, dtype)
        end
        return list
    end,
}
