-- instruction_fma.lua: fp32 multiply-adds, as a matrix instruction of a whole wave. Every target has them.

return {
    instruction = "fma",
    doc = "fp32 multiply-add; 16-bit elements are converted once, on their way to shared memory",
    names = { "fma" },
    forms = function(t, dtype)
        return { {
            name = "fma", family = "fma", lanes = t.wave, bytes = 4, converts = true, m = 16, n = t.wave // 8, k = 4, keys_first = true,
            a_elements = 8, b_elements = 4, c_elements = 2,
            a = function(l, e) return l % 8 + 8 * (e // 4), e % 4 end,
            b = function(l, e) return e % 4, l // 8 end,
            c = function(l, r) return l % 8 + 8 * r, l // 8 end,
            multiply = function(type, c, r, a, b)
                return c .. "[" .. r .. "] = fused(bits_float(" .. a .. "), bits_float(" .. b .. "), " .. c .. "[" .. r .. "]);"
            end,
        } }
    end,
}
