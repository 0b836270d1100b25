-- attention_judge.lua: what attention.reference and attention.compare share.

local judge = { threads = 128, rows = 8 } -- of a block

-- a run-time size among a family's fields
function judge.size(name, minimum)
    return { name = name, kind = "integer", role = "size", always = true, required = true, min = minimum, max = 2147483647,
             doc = "run-time size" }
end

-- every launch: eight rows of one head a block, origins last, nothing but arguments and shared memory to tell
function judge.launch(kernel, t, d, name, arguments)
    for _, origin in ipairs({ "origin_x", "origin_y", "origin_z" }) do
        arguments[#arguments + 1] = { origin, "u32" }
    end
    local static_bytes, dynamic_bytes = kernel.shared_split(t, d.shared)
    return {
        kernel = name, threads = judge.threads, static_shared_bytes = static_bytes, dynamic_shared_bytes = dynamic_bytes,
        arguments = arguments, grid = { { { "seqlen_q", judge.rows } }, { { "heads", 1 } }, { { "batch", 1 } } },
        blocks_per_unit = 0, fixed = {}, limits = {}, workspace = { constant = 0, factor = 0, dims = {} },
    }
end

judge.square_root = [[
union double_bits {
    double value;
    u64 bits;
};

// by Newton from a guess of half the exponent; 0 for 0, NaN and infinity as they are
device_function double square_root(double x)
{
    if (!(x > 0.0) || x > 1e300)
        return x;
    double_bits guess;
    guess.value = x;
    guess.bits = (guess.bits >> 1) + 0x1ff8000000000000ull;
    for (int step = 0; step < 6; ++step)
        guess.value = 0.5 * (guess.value + x / guess.value);
    return guess.value;
}]]

return judge
