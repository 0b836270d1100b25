% local kernel = import("kernel")
constexpr int WAVE = ${t.wave}, WORDS = ${c.words};

% local places = {
%   dense = "lane * WORDS",                               -- one after another
%   rows = "lane * 32",                                   -- the first words of rows of 128 bytes
%   padded = "lane * 36",                                 -- rows padded by 16 bytes
%   xor = "lane * 32 + (lane & 7) * 4",                   -- chunk 0 of rows whose chunks are swizzled
%   same = "0",                                           -- all lanes one place
%   apart = "lane * 2 * WORDS",                           -- every other place
%   quads = "lane % 4 * 4 + lane / 16 % 2 * 16 + lane / 4 * 32", -- fits phases of lanes 0-3 with 20-23, not of neighbours
%   even = "lane * 32",                                   -- rows, of lanes with an even number alone
% }
device_function int place(int lane) { return ${places[c.places]}; }

${kernel.entry(t, d.launch, { x = "const float *", y = "float *" })}
${kernel.shared(t, { { "tile", 64 * 36, "a row of 144 bytes for each lane" } })}
    const int lane = thread_index();
    const u32 block = block_index_x() + origin_x;
    const float *const from = x + block * 256;
    (void)from;
    (void)y;
    (void)elements;
    u32 word[4] = {0u, 0u, 0u, 0u};
    bool active = true;
% if c.places == "even" then
    active = lane % 2 == 0;
% end
% if c.by == "copies" then
    begin_copies(copies, lane);
    copy_async(copies, tile + place(lane), from, false);
    commit_copies(copies);
    wait_copies<0>(copies);
% else
    if (active)
        store_words<WORDS>(tile + place(lane), word);
% end
    for (int round = 0; round < ${c.rounds}; ++round) {
        barrier();
% if c.by == "matrices" then
        load_matrices(word, tile + place(lane));
% else
        if (active)
            load_words<WORDS>(word, tile + place(lane));
% end
    }
}
${kernel.note(t, d.launch)}
