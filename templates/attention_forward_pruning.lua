-- attention_forward_pruning.lua: which templates of attention.forward are searched, and how far the portable template's space is
-- pruned of what is not expected to pay.
--
-- A folder of ATTUNE_TEMPLATE_PATH with a file of this name searches another space: bench/spaces has a wider one.

return {
    fragments = true, -- the template of fragments is there
    portable_beside_fragments = false, -- where it serves a problem the portable one is searched too, not only a corner of it
    exact_anywhere = false, -- compiled lengths with every layout, not only in one corner
    storage_anywhere = false, -- 16-bit elements in shared memory with every layout where they are converted at each use
    balance_roomy = 6, -- least multiplies for each 16-byte read of shared memory: where registers abound,
    balance = 5, -- and elsewhere
    tile = 2048, -- least block_q * block_k
}
