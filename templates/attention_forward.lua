-- attention_forward.lua: the family attention.forward: its templates, their launch, and what they cannot do yet.

local kernel = import("kernel")
local shape = import("attention_forward_shape")
local pruning = import("attention_forward_pruning")
local space = import("attention_forward_space")
local fragments_shape = import("attention_forward_fragments_shape")
local fragments_space = import("attention_forward_fragments_space")

local element_bytes = import("attention_forward_common").element_bytes

local function launch(c, p, t, d)
    local arguments = { { "q", "pointer" }, { "k", "pointer" }, { "v", "pointer" }, { "o", "pointer" } }
    local function add(name, kind)
        arguments[#arguments + 1] = { name, kind }
    end
    if d.lse then
        add("lse", "pointer")
    end
    if d.dropout then
        add("seed_pointer", "pointer")
        add("offset_pointer", "pointer")
        add("seed", "u64")
        add("offset", "u64")
    end
    for _, tensor in ipairs({ "q", "k", "v", "o" }) do
        for _, axis in ipairs({ "batch", "seq", "head" }) do
            add(tensor .. "_" .. axis .. "_stride", "i64")
        end
    end
    local fixed = {}
    if c.exact == "lengths" then
        fixed = { { "seqlen_q", p.seqlen_q }, { "seqlen_k", p.seqlen_k } }
    else
        add("seqlen_q", "i32")
        add("seqlen_k", "i32")
    end
    if d.lse or d.dropout then
        add("heads", "i32")
    end
    add("scale", "f32")
    if d.dropout then
        add("dropout_threshold", "u32")
        add("dropout_scale", "f32")
    end
    add("origin_x", "u32")
    add("origin_y", "u32")
    add("origin_z", "u32")
    local limits = {}
    if c.index == "narrow" then
        local span = 1 << 31
        limits = {
            { "q_seq_stride", c.block_q * element_bytes(p.q_dtype), span },
            { "k_seq_stride", d.block_k * element_bytes(p.k_dtype), span },
            { "v_seq_stride", d.block_k * element_bytes(p.v_dtype), span },
            { "o_seq_stride", c.block_q * element_bytes(p.o_dtype), span },
        }
    end
    local static_bytes, dynamic_bytes = kernel.shared_split(t, d.shared)
    return {
        kernel = "attention_forward", threads = c.threads,
        static_shared_bytes = static_bytes, dynamic_shared_bytes = dynamic_bytes,
        arguments = arguments,
        grid = { { { "seqlen_q", c.block_q } }, { { "heads", 1 } }, { { "batch", 1 } } },
        blocks_per_unit = 0, fixed = fixed, limits = limits,
        workspace = { constant = 0, factor = 0, dims = {} },
    }
end

-- options that no template honours yet, with the value that means "off"
local unsupported = {
    { "window_left", -1 }, { "window_right", -1 }, { "softcap", 0 }, { "alibi", 0 }, { "sinks", 0 }, { "bias", "none" },
    { "mask", "none" }, { "varlen", 0 }, { "paged", 0 }, { "strict_nan", 0 },
}

local function supports(p, t)
    for _, option in ipairs(unsupported) do
        local value = p[option[1]]
        if value ~= nil and value ~= option[2] then
            return false, option[1] .. "=" .. tostring(value) .. ": no template has this option yet; leave it at "
                .. tostring(option[2])
        end
    end
    for _, name in ipairs({ "q_dtype", "k_dtype", "v_dtype", "o_dtype" }) do
        if not kernel.types[p[name]] then
            return false, name .. "=" .. tostring(p[name]) .. ": the templates have f16, bf16 and f32"
        end
    end
    for _, name in ipairs({ "head_dim_qk", "head_dim_v" }) do
        if p[name] < 1 or p[name] > 256 then
            return false, name .. "=" .. p[name] .. ": the templates have 1 to 256"
        end
    end
    return true
end

return {
    name = "attention.forward",
    doc = "o = softmax(scale q k^T) v, with causal masks, grouped heads, dropout and the logarithm of the denominator",
    templates = { {
        name = "fragments",
        file = "attention_forward_fragments.hip",
        doc = "prefill with matrix instructions or dot products of whole waves, on targets that have them",
        supports = function(p, t)
            local fits, reason = supports(p, t)
            if not fits then
                return fits, reason
            elseif not pruning.fragments then
                return false, "the template of fragments is left out of this space (attention_forward_pruning.lua)"
            end
            return fragments_space.supports(p, t)
        end,
        parameters = fragments_space.parameters,
        constraints = fragments_space.constraints,
        default = fragments_space.default,
        derive = fragments_shape.derive,
        paths = fragments_shape.paths,
        launch = launch,
    }, {
        name = "portable",
        file = "attention_forward_portable.hip",
        doc = "every target; vector arithmetic, no matrix instructions",
        supports = supports,
        parameters = space.parameters,
        constraints = space.constraints,
        default = space.default,
        derive = shape.derive,
        paths = shape.paths,
        launch = launch,
    } },
}
