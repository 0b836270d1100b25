-- attention_parts.lua: device functions that several attention templates have in common, as text.

local kernel = import("kernel")

local parts = {}

-- keep or drop: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011
parts.philox = [[
// Philox4x32 with 7 rounds (Salmon et al., 2011): one call decides about eight keys of a row.
device_function words4 philox(u32 x, u32 y, u32 z, u32 w, u32 key_low, u32 key_high)
{
#pragma unroll
    for (int round = 0; round < 7; ++round) {
        const u32 first = multiply_high(0xd2511f53u, x), second = multiply_high(0xcd9e8d57u, z);
        const u32 x_next = second ^ y ^ key_low, z_next = first ^ w ^ key_high;
        y = 0xcd9e8d57u * z;
        w = 0xd2511f53u * x;
        x = x_next;
        z = z_next;
        key_low += 0x9e3779b9u;
        key_high += 0xbb67ae85u;
    }
    return words4{{x, y, z, w}};
}
// of two values, not of two places: an address that depends on the lane would put the words into scratch memory
device_function u32 choose(bool first, u32 a, u32 b) { return first ? a : b; }]]

-- `scaled_by`: the sum carries the factor 2^scaled_by
function parts.log_denominator(scaled_by)
    return string.replace([[
// ln of a row's denominator: maximum + ln(sum), from a maximum in units of log2. Once a row, so rather exact than fast.
device_function float log_denominator(float row_max, float row_sum)
{
    const u32 bits = float_bits(row_sum);
    float fraction = bits_float((bits & 0x7fffffu) | 0x3f800000u);  // [1, 2)
    float whole = (float)((int)(bits >> 23) - 127 - SCALED_BY) + row_max;
    if (fraction > 1.41421356f) {
        fraction *= 0.5f;
        whole += 1.0f;
    }
    const float fine = fused(whole, 1.42860677e-6f, log2_fast(fraction) * 0.693147181f);
    return row_sum == row_sum ? fused(whole, 0.693145752f, fine) : row_sum;
}]], "SCALED_BY", tostring(scaled_by))
end

-- o's elements on their way out
function parts.store_outputs(o_dtype)
    local body = [[
    if constexpr (COUNT == 1) {
        *(o_type *)address = from_float<o_type>(value[0]);
    } else {
        u32 word[COUNT / 2];
#pragma unroll
        for (int i = 0; i < COUNT / 2; ++i)
            word[i] = pack_elements<o_type>(value[2 * i], value[2 * i + 1]);
        store_words<COUNT / 2>(address, word);
    }
]]
    if kernel.types[o_dtype].bytes == 4 then
        body = [[
    u32 word[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
        word[i] = float_bits(value[i]);
    store_words<COUNT>(address, word);
]]
    end
    return [[
// COUNT neighbouring elements of a row of o
template <int COUNT> device_function void store_outputs(char *address, const float *value)
{
]] .. body .. "}"
end

return parts
