-- instruction_dot2.lua: two-element dot products with fp32 sums, as a matrix instruction of a whole wave.
--
-- Each lane takes two keys and one query over one chunk of depth. Lanes that share a query hold different keys, so weights go
-- through shared memory: no lane holds keys enough for a dot product with a chunk of v. Eight or sixteen lanes share a query:
-- with more of them fewer queries make as large a tile. Neighbouring lanes take neighbouring keys, so that the rows they read at
-- once follow each other in shared memory, whatever a row's length.

local function form(t, keys)
    return {
        name = "dot2_" .. keys, family = "dot2", lanes = t.wave, bytes = 2, m = 2 * keys, n = t.wave // keys, k = 8,
        keys_first = true, a_elements = 16, b_elements = 8, c_elements = 2,
        a = function(l, e) return l % keys + keys * (e // 8), e % 8 end,
        b = function(l, e) return e % 8, l // keys end,
        c = function(l, r) return l % keys + keys * r, l // keys end,
        multiply = function(type, c, r, a, b) -- one element of c, words of a and b
            return c .. "[" .. r .. "] = dot2<" .. type .. ">(" .. a .. ", " .. b .. ", " .. c .. "[" .. r .. "]);"
        end,
    }
end

return {
    instruction = "dot2",
    doc = "v_dot2_f32_f16, v_dot2_f32_bf16: targets without a matrix unit that have them, and others for comparison",
    names = { "dot2_16", "dot2_8" },
    forms = function(t, dtype)
        if dtype == "f16" and t.dot2 or dtype == "bf16" and t.dot2_bf16 then
            return { form(t, 16), form(t, 8) }
        end
        return {}
    end,
}
