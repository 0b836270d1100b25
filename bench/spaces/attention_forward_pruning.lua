-- attention_forward_pruning.lua: a wider space than the product's, in which searching is judged (docs/search.md): about
-- twice as many candidates, at least 500 different binaries without spilled registers for each of problems.txt on sm_90a. The
-- portable template alone: its candidates are what bench/journals measured.

return {
    fragments = false,
    portable_beside_fragments = true,
    exact_anywhere = false,
    storage_anywhere = true,
    balance_roomy = 5,
    balance = 4,
    tile = 2048,
}
