% local kernel = import("kernel")
% local bytes = kernel.types[p.dtype].bytes
// Softmax of each row: y = exp(x - max) / sum(exp(x - max)). LANES lanes of one wave share a row; each takes every LANES-th
// vector of VECTOR elements, and all exchange their maximum and their sum by shuffles.

typedef ${kernel.types[p.dtype].name} element;
constexpr int WAVE = ${t.wave}, THREADS = ${c.threads};
constexpr int COLUMNS = ${p.columns};
constexpr int LANES = ${c.lanes}, VECTOR = ${c.vector};
constexpr int ROWS = THREADS / LANES;  // of a block
constexpr int STEPS = ${d.steps};      // vectors of a lane, the last one perhaps past the row's end
constexpr float LOG2_E = ${1.4426950408889634}f;

device_function void load_vector(float (&to)[VECTOR], const element *from)
{
% if d.words == 0 then
    to[0] = to_float(from[0]);
% else
    u32 word[${d.words}];
    load_words<${d.words}>(word, from);
%   for i = 0, c.vector - 1 do
%     if bytes == 4 then
    to[${i}] = bits_float(word[${i}]);
%     else
    to[${i}] = ${i % 2 == 0 and "low" or "high"}_element<element>(word[${i // 2}]);
%     end
%   end
% end
}

device_function void store_vector(element *to, const float (&from)[VECTOR])
{
% if d.words == 0 then
    to[0] = from_float<element>(from[0]);
% else
    u32 word[${d.words}];
%   for i = 0, d.words - 1 do
%     if bytes == 4 then
    word[${i}] = float_bits(from[${i}]);
%     else
    word[${i}] = pack_elements<element>(from[${2 * i}], from[${2 * i + 1}]);
%     end
%   end
    store_words<${d.words}>(to, word);
% end
}

${kernel.entry(t, d.launch, {x = "const element *", y = "element *"})}
    const int lane = thread_index() % LANES;
    const i64 row = (i64)(origin_x + block_index_x()) * ROWS + thread_index() / LANES;
    // lanes of rows past the end repeat the last row, since all lanes of a wave take part in the shuffles
    const i64 offset = (row < rows ? row : (i64)rows - 1) * COLUMNS;
    float value[${c.keep == "registers" and "STEPS" or "1"}][VECTOR];
    float largest = -INFINITY_FLOAT, sum = 0.0f;
% local at = c.keep == "registers" and "step" or "0"
% -- one pass over the lane's vectors; `load` where the values are not held
% local function pass(load, body)
#pragma unroll ${c.keep == "registers" and d.steps or 4}
    for (int step = 0; step < STEPS; ++step) {
        const int column = (step * LANES + lane) * VECTOR;
        if (column < COLUMNS) {
%   if load or c.keep == "memory" then
            load_vector(value[${at}], x + offset + column);
%   end
%   body()
        }
    }
% end

% pass(true, function()
            for (int i = 0; i < VECTOR; ++i)
                largest = maximum(largest, value[${at}][i]);
% end)
    largest = group_maximum(LANES, largest);

% pass(false, function()
            for (int i = 0; i < VECTOR; ++i) {
                value[${at}][i] = exp2_fast((value[${at}][i] - largest) * LOG2_E);
                sum += value[${at}][i];
            }
% end)
    const float factor = 1.0f / group_sum(LANES, sum);

% pass(false, function()
            for (int i = 0; i < VECTOR; ++i)
%   if c.keep == "registers" then
                value[step][i] *= factor;
%   else
                value[0][i] = exp2_fast((value[0][i] - largest) * LOG2_E) * factor;
%   end
            if (row < rows)
                store_vector(y + offset + column, value[${at}]);
% end)
}
${kernel.note(t, d.launch)}
