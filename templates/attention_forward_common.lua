-- attention_forward_common.lua: what the shapes and spaces of attention.forward's templates have in common.

local kernel = import("kernel")

local common = {}

function common.ceil_div(a, b)
    return (a + b - 1) // b
end

local function gcd(a, b)
    while b ~= 0 do
        a, b = b, a % b
    end
    return a
end

function common.element_bytes(dtype)
    return kernel.types[dtype].bytes
end

-- Bytes that a row may be read in at a time: an element is aligned to itself, whatever class the narrower tensors have.
function common.piece(p, row_bytes, element)
    return math.max(element, gcd(p.alignment, row_bytes))
end

-- bytes of a row's last unit
function common.tail(row_bytes, unit)
    return (row_bytes - 1) % unit + 1
end

-- C types of the kernel's pointer arguments
function common.pointers(p)
    local function input(dtype)
        return "const " .. kernel.types[dtype].name .. " *__restrict__ "
    end
    return {
        q = input(p.q_dtype), k = input(p.k_dtype), v = input(p.v_dtype), o = kernel.types[p.o_dtype].name .. " *__restrict__ ",
        lse = "float *__restrict__ ", seed_pointer = "const u64 *__restrict__ ", offset_pointer = "const u64 *__restrict__ ",
    }
end

-- a constraint's answer: no, with the reason
function common.refuse(format, ...)
    return false, string.format(format, ...)
end

-- does a candidate pass all constraints?
function common.allowed(constraints, c, p, t)
    for _, constraint in ipairs(constraints) do
        if not constraint.check(c, p, t) then
            return false
        end
    end
    return true
end

return common
