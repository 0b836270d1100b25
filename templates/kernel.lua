-- kernel.lua: the parts of a kernel's text that differ by vendor beyond the vocabulary: entry, shared arrays, host note.
--
-- One argument list and one list of shared arrays serve all three: on AMD static LDS (its size shows in the object), on NVIDIA
-- one dynamic array with offsets (more than 48 KiB is possible), on the host exact heap blocks so that a sanitizer sees every
-- access past an array's end.

local kernel = {}

-- element types by dtype name
kernel.types = {
    f16 = { name = "half_t", bytes = 2 },
    bf16 = { name = "bf16_t", bytes = 2 },
    f32 = { name = "float", bytes = 4 },
}

local scalar_types = { i32 = "i32", u32 = "u32", i64 = "i64", u64 = "u64", f32 = "float" }

local function argument_type(name, kind, pointers)
    if kind == "pointer" then
        return pointers[name] or "void *"
    end
    return scalar_types[kind] .. " "
end

-- bytes of the packed arguments: natural alignment, up to the last one's end
function kernel.argument_bytes(arguments)
    local bytes = 0
    for _, argument in ipairs(arguments) do
        local size = (argument[2] == "pointer" or argument[2] == "i64" or argument[2] == "u64") and 8 or 4
        bytes = (bytes + size - 1) // size * size + size
    end
    return bytes
end

-- The head of the kernel function up to its opening brace. `pointers` maps pointer arguments to their C types; `resident` is what
-- the compiler must leave registers for: on NVIDIA the blocks an SM should hold, on AMD the waves of a SIMD unit; nil: what the
-- compiler thinks best.
function kernel.entry(t, launch, pointers, resident)
    local declared = {}
    for index, argument in ipairs(launch.arguments) do
        declared[index] = argument_type(argument[1], argument[2], pointers) .. argument[1]
    end
    if t.vocabulary ~= "host" then
        local bounds = resident and launch.threads .. ", " .. resident or launch.threads
        return "kernel_function(" .. bounds .. ") void " .. launch.kernel .. "(\n    "
            .. table.concat(declared, ",\n    ") .. ")\n{"
    end
    local lines = { "struct packed_arguments {" }
    for _, text in ipairs(declared) do
        lines[#lines + 1] = "    " .. text .. ";"
    end
    lines[#lines + 1] = "};"
    lines[#lines + 1] = "extern \"C\" void attune_host_entry(const host_api *api, const void *packed)"
    lines[#lines + 1] = "{"
    lines[#lines + 1] = "    packed_arguments given;"
    lines[#lines + 1] = "    __builtin_memcpy(&given, packed, " .. kernel.argument_bytes(launch.arguments) .. ");"
    for index, argument in ipairs(launch.arguments) do
        lines[#lines + 1] = "    " .. argument_type(argument[1], argument[2], pointers) .. argument[1] .. " = given."
            .. argument[1] .. ";"
    end
    return table.concat(lines, "\n")
end

-- Declarations of shared arrays of 32-bit words: a list of {name, words, comment}. All start at multiples of 16 bytes.
function kernel.shared(t, arrays)
    local lines = {}
    if t.vocabulary == "nvidia" then
        lines[1] = "    extern __shared__ __align__(16) u32 shared_words[];"
    end
    local offset = 0
    for _, array in ipairs(arrays) do
        local name, words, comment = array[1], array[2], "  // " .. array[3]
        if t.vocabulary == "amd" then
            lines[#lines + 1] = "    shared_array u32 " .. name .. "[" .. words .. "];" .. comment
        elseif t.vocabulary == "nvidia" then
            lines[#lines + 1] = "    u32 *const " .. name .. " = shared_words + " .. offset .. ";" .. comment
        else
            lines[#lines + 1] = "    u32 *const " .. name .. " = (u32 *)shared_array(" .. words * 4 .. ");" .. comment
        end
        offset = offset + (words + 3) // 4 * 4
    end
    return table.concat(lines, "\n")
end

-- bytes of such a list, as laid out
function kernel.shared_bytes(arrays)
    local words = 0
    for _, array in ipairs(arrays) do
        words = words + (array[2] + 3) // 4 * 4
    end
    return words * 4
end

-- static and dynamic bytes for the launch descriptor
function kernel.shared_split(t, arrays)
    local bytes = kernel.shared_bytes(arrays)
    if t.vocabulary == "nvidia" then
        return 0, bytes
    end
    return bytes, 0
end

-- What follows the kernel function: on the host the note that tells the object's resources.
function kernel.note(t, launch)
    if t.vocabulary ~= "host" then
        return ""
    end
    return "\n"
        .. "static const __attribute__((section(\".note.attune\"), used, aligned(4))) host_note_section attune_note = {\n"
        .. "    7, sizeof(host_note), 1, \"attune\",\n"
        .. "    {1, " .. t.wave .. ", " .. launch.threads .. ", "
        .. launch.static_shared_bytes .. ", " .. kernel.argument_bytes(launch.arguments) .. ", \""
        .. launch.kernel .. "\", \"" .. t.name .. "\"}};"
end

return kernel
