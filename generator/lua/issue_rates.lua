-- issue_rates.lua - what one instruction of one wave costs, as data: cycles of the units it keeps busy.
--
-- find(processor) gives { generation, registers..., peak, rules }; nil for a processor without rates. A rule is
--   { pattern, class, valu=, trans=, integer=, port=, scalar=, matrix=, products=, bytes=, unknown=, source= }
-- pattern     of the mnemonic, `*` stands for any text; the first rule that fits counts
-- class       what the listing calls it
-- valu        cycles of the SIMD's vector unit (NVIDIA: of the partition's floating-point pipe)
-- trans       cycles of a unit of its own for exp2, log2, rcp, rsq, where there is one
-- integer     cycles of NVIDIA's integer pipe
-- port        NVIDIA: issue slots of the partition, one a clock for whatever unit
-- scalar      cycles of the scalar unit
-- matrix      cycles of the matrix unit, which runs beside the vector unit (gfx11, gfx12: they are the vector unit's own)
-- products    multiply-adds that one wave's instruction does
-- bytes       of LDS, shared or global memory a lane
-- unknown     true where no cycles are published: who counts says so
-- A cycle is one of the SIMD or partition; LDS cycles follow from the bytes, the banks and the units that share the LDS.
--
-- `peak` is multiply-adds of f16 operands with f32 accumulation a clock and SIMD by the target's best instruction, as the
-- vendor's peak numbers for a board with compute units and clock give it: the unit of "share of peak".
-- `granule` registers a lane are allocated at once; `unified` says whether accumulators come from the same file. A block's
-- LDS is rounded up to `lds_granule`, after `lds_reserved` bytes that the system keeps in it. Sources: LLVM's AMDGPU usage
-- guide, the CUDA occupancy tables.

local sources = {
    isa = "AMD's ISA manuals (Vega, Vega 7nm, MI100, MI200, CDNA3, CDNA4, RDNA 1-4): wave64 on 16 lanes is 4 cycles, wave32 on 32 is 1",
    quarter = "GCN and CDNA: v_exp_f32 and its like at a quarter of the rate; LLVM's WriteTrans32, latency 4 issue slots",
    rdna = "RDNA whitepaper: 8 lanes of transcendental functions a SIMD, beside the vector unit",
    cdna4 = "CDNA 4: transcendental rate doubled",
    passes = "LLVM's scheduling model of MFMA passes (4 cycles each); agrees with the boards' peak: MI100 184.6, MI210 181, "
        .. "MI300X 1307.4, MI355X 2516.6 TFLOP/s of f16",
    rdna3 = "RX 7900 XTX: 122.8 TFLOP/s of f16 on 96 CUs at 2.5 GHz = 128 multiply-adds a clock and SIMD",
    rdna4 = "RX 9070 XT: 195 TFLOP/s of f16 on 64 CUs at 2.97 GHz = 256 multiply-adds a clock and SIMD",
    dot2 = "MI50: 26.5 TFLOP/s of f16 on 60 CUs at 1.725 GHz = 32 multiply-adds a clock and SIMD; a full-rate instruction",
    cuda = "CUDA C++ programming guide, throughput of native arithmetic instructions a clock and SM, over 4 partitions",
    tensor = "NVIDIA's architecture whitepapers: dense f16 multiply-adds with f32 accumulation a clock and SM, over 4 partitions; "
        .. "sm_86, sm_89 and sm_120 as on professional boards, GeForce ones do half of it",
    hopper = "published microbenchmarks of H800: mma.sync reaches 65 % of what wgmma does",
    assumed = "assumed: no published number",
}

-- Lua tables that hold the rules of several generations one after another
local function joined(...)
    local all = {}
    for i = 1, select("#", ...) do
        for _, rule in ipairs((select(i, ...))) do
            all[#all + 1] = rule
        end
    end
    return all
end

local function expand(rules, units)
    local all = {}
    for i, rule in ipairs(rules) do
        local row = { pattern = rule[1], class = rule[2], source = sources[rule.source or units.source] }
        for _, name in ipairs { "valu", "trans", "integer", "scalar", "matrix", "products", "bytes" } do
            row[name] = rule[name] or 0
        end
        if rule.rate then -- vector instructions: how many times a full-rate instruction's cycles
            row.valu = rule.rate * units.full
        end
        if rule.lanes then -- multiply-adds a lane
            row.products = rule.lanes * units.wave
        end
        if rule.scalars then
            row.scalar = rule.scalars * units.scalar
        end
        if units.port then
            row.port = 1
        end
        row.unknown = rule.unknown or false
        all[i] = row
    end
    return all
end

-- ---- AMD ----

local memory = {
    { "s_waitcnt*", "wait" }, { "s_wait_*", "wait" }, { "s_delay_alu*", "wait" }, { "s_nop", "wait" }, { "s_clause", "wait" },
    { "s_sleep", "wait" }, { "s_setprio", "wait" }, { "s_sched*", "wait" }, { "s_set_inst_prefetch*", "wait" },
    { "s_barrier*", "barrier" }, { "s_branch", "branch", scalars = 1 }, { "s_cbranch*", "branch", scalars = 1 },
    { "s_endpgm*", "branch", scalars = 1 },
    { "s_*", "scalar", scalars = 1 },
    { "ds_bpermute*", "lds exchange", bytes = 4 }, { "ds_permute*", "lds exchange", bytes = 4 },
    { "ds_swizzle*", "lds exchange", bytes = 4 },
    { "ds_read2*_b64", "lds read", bytes = 16 }, { "ds_load_2addr*_b64", "lds read", bytes = 16 },
    { "ds_read2*_b32", "lds read", bytes = 8 }, { "ds_load_2addr*_b32", "lds read", bytes = 8 },
    { "ds_write2*_b64", "lds write", bytes = 16 }, { "ds_store_2addr*_b64", "lds write", bytes = 16 },
    { "ds_write2*_b32", "lds write", bytes = 8 }, { "ds_store_2addr*_b32", "lds write", bytes = 8 },
    { "ds_read_b128", "lds read", bytes = 16 }, { "ds_load_b128", "lds read", bytes = 16 },
    { "ds_read_b96*", "lds read", bytes = 12 }, { "ds_load_b96", "lds read", bytes = 12 },
    { "ds_read_b64*", "lds read", bytes = 8 }, { "ds_load_b64*", "lds read", bytes = 8 }, { "ds_load_tr*_b128*", "lds read", bytes = 16 },
    { "ds_read*", "lds read", bytes = 4 }, { "ds_load*", "lds read", bytes = 4 },
    { "ds_write_b128", "lds write", bytes = 16 }, { "ds_store_b128", "lds write", bytes = 16 },
    { "ds_write_b96", "lds write", bytes = 12 }, { "ds_store_b96", "lds write", bytes = 12 },
    { "ds_write_b64", "lds write", bytes = 8 }, { "ds_store_b64", "lds write", bytes = 8 },
    { "ds_write*", "lds write", bytes = 4 }, { "ds_store*", "lds write", bytes = 4 },
    { "ds_*", "lds exchange", bytes = 4 },
    { "global_load_lds_dwordx4", "direct load", bytes = 16 }, { "global_load_lds_dwordx3", "direct load", bytes = 12 },
    { "global_load_lds_*", "direct load", bytes = 4 }, { "buffer_load_*_lds", "direct load", bytes = 4 },
    { "global_load_dwordx4", "global load", bytes = 16 }, { "global_load_b128", "global load", bytes = 16 },
    { "buffer_load_dwordx4", "global load", bytes = 16 }, { "buffer_load_b128", "global load", bytes = 16 },
    { "global_load_dwordx3", "global load", bytes = 12 }, { "global_load_b96", "global load", bytes = 12 },
    { "global_load_dwordx2", "global load", bytes = 8 }, { "global_load_b64", "global load", bytes = 8 },
    { "buffer_load_dwordx2", "global load", bytes = 8 }, { "buffer_load_b64", "global load", bytes = 8 },
    { "global_load*", "global load", bytes = 4 }, { "buffer_load*", "global load", bytes = 4 },
    { "buffer_*inv*", "wait" }, { "buffer_wb*", "wait" }, { "global_inv*", "wait" }, { "global_wb*", "wait" },
    { "global_*", "global store" }, { "buffer_*", "global store" },
    { "flat_*", "flat" }, { "scratch_*", "scratch" },
}

-- what a full-rate vector instruction does, by class; rates are multiples of its cycles
local function vector(quarter, double)
    return {
        { "v_exp_*", "exp", trans_rate = true }, { "v_log_*", "exp", trans_rate = true }, { "v_rcp_*", "exp", trans_rate = true },
        { "v_rsq_*", "exp", trans_rate = true }, { "v_sqrt_*", "exp", trans_rate = true }, { "v_sin_*", "exp", trans_rate = true },
        { "v_cos_*", "exp", trans_rate = true },
        { "v_*_f64*", "other vector", rate = double },
        { "v_dot2*_f32_f16*", "dot2", rate = 1, lanes = 2, source = "dot2" }, { "v_dot2*_f32_bf16*", "dot2", rate = 1, lanes = 2 },
        { "v_dot4*", "dot2", rate = 1, lanes = 4 }, { "v_dot*", "dot2", rate = 1, lanes = 2 },
        { "v_pk_fma_f32*", "fma", rate = 1, lanes = 2 }, { "v_pk_fma_f16*", "fma", rate = 1, lanes = 2 },
        { "v_pk_fmac_f16*", "fma", rate = 1, lanes = 2 },
        { "v_fma_mix*_f16*", "convert", rate = 1 }, { "v_mad_mix*_f16*", "convert", rate = 1 },
        { "v_fma_mix_f32*", "fma", rate = 1, lanes = 1 }, { "v_mad_mix_f32*", "fma", rate = 1, lanes = 1 },
        { "v_fma_f32*", "fma", rate = 1, lanes = 1 }, { "v_fmac_f32*", "fma", rate = 1, lanes = 1 },
        { "v_dual_fmac_f32", "fma", rate = 1, lanes = 1 }, { "v_dual_fma*", "fma", rate = 1, lanes = 1 },
        { "v_dual_dot2acc*", "dot2", rate = 1, lanes = 2 },
        { "v_mac_f32*", "fma", rate = 1, lanes = 1 }, { "v_mad_f32*", "fma", rate = 1, lanes = 1 },
        { "v_mad_u64_u32*", "other vector", rate = quarter }, { "v_mad_i64_i32*", "other vector", rate = quarter },
        { "v_mad_co_u64_u32*", "other vector", rate = quarter }, { "v_mul_lo_*32*", "other vector", rate = quarter },
        { "v_mul_hi_*32*", "other vector", rate = quarter },
        { "v_mov_b32_dpp", "exchange", rate = 1 }, { "v_*_dpp*", "exchange", rate = 1 }, { "v_permlane*", "exchange", rate = 1 },
        { "v_readlane*", "exchange", rate = 1 }, { "v_readfirstlane*", "exchange", rate = 1 }, { "v_writelane*", "exchange", rate = 1 },
        { "v_cvt_*", "convert", rate = 1 }, { "v_perm_*", "convert", rate = 1 }, { "v_pack_*", "convert", rate = 1 },
        { "v_bfi_*", "convert", rate = 1 }, { "v_alignb*", "convert", rate = 1 }, { "v_and_or_*", "convert", rate = 1 },
        { "v_lshl_or_*", "convert", rate = 1 }, { "v_bfe_*", "convert", rate = 1 },
        { "v_accvgpr*", "move", rate = 1 }, { "v_mov_*", "move", rate = 1 }, { "v_dual_mov_*", "move", rate = 1 },
        { "v_pk_mov_*", "move", rate = 1 }, { "v_swap_*", "move", rate = 1 },
        { "v_nop", "wait", rate = 1 },
        { "v_add_f32*", "add or multiply", rate = 1 }, { "v_sub*_f32*", "add or multiply", rate = 1 },
        { "v_mul_f32*", "add or multiply", rate = 1 }, { "v_mul_legacy_f32*", "add or multiply", rate = 1 },
        { "v_max*_f32*", "add or multiply", rate = 1 }, { "v_min*_f32*", "add or multiply", rate = 1 },
        { "v_pk_*_f16*", "add or multiply", rate = 1 }, { "v_pk_*_f32*", "add or multiply", rate = 1 },
        { "v_dual_*_f32", "add or multiply", rate = 1 }, { "v_*_f16*", "add or multiply", rate = 1 },
        { "v_*", "other vector", rate = 1 },
    }
end

local function with_trans(rules, trans, source)
    for _, rule in ipairs(rules) do
        if rule.trans_rate then
            rule.rate, rule.trans, rule.source = trans.rate, trans.trans, source
        end
    end
    return rules
end

-- Each MFMA is issued in one slot of the vector unit and then keeps the matrix unit for its passes of 4 cycles.
local function mfma(shape, products, passes)
    return { "v_mfma_f32_" .. shape, "matrix", rate = 1, matrix = 4 * passes, products = products, source = "passes" }
end
local mfma_first = { -- gfx908, gfx90a
    mfma("16x16x16*f16*", 4096, 8), mfma("32x32x8*f16*", 8192, 16), mfma("16x16x8*bf16*", 2048, 8), mfma("32x32x4bf16*", 4096, 16),
    mfma("32x32x4_bf16*", 4096, 16), mfma("16x16x4f32*", 1024, 8), mfma("32x32x2f32*", 2048, 16),
}
local mfma_third = { -- gfx942
    mfma("16x16x16*f16*", 4096, 4), mfma("32x32x8*f16*", 8192, 8), mfma("16x16x4*f32*", 1024, 8), mfma("32x32x2*f32*", 2048, 16),
}
local mfma_wide = { mfma("16x16x32*f16*", 8192, 4), mfma("32x32x16*f16*", 16384, 8) } -- gfx950
local mfma_unknown = { { "v_mfma*", "matrix", rate = 1, unknown = true }, { "v_smfma*", "matrix", rate = 1, unknown = true } }

local gcn = { full = 4, wave = 64, scalar = 4, source = "isa" }
local rdna = { full = 1, wave = 32, scalar = 1, source = "isa" }

local function gcn_vector(double, cycles, source)
    return with_trans(vector(4, double), { rate = cycles / 4 }, source or "quarter")
end
local rdna_trans = { rate = 1, trans = 4 }
local function rdna_vector(double)
    return with_trans(vector(4, double), rdna_trans, "rdna")
end
local function wmma(cycles, source)
    return {
        { "v_wmma_f32_16x16x16_*f16*", "matrix", valu = cycles, matrix = cycles, products = 4096, source = source },
        { "v_wmma*", "matrix", valu = cycles, matrix = cycles, unknown = true },
        { "v_swmmac*", "matrix", valu = cycles, matrix = cycles, unknown = true },
    }
end

-- ---- NVIDIA ----

-- r: cycles a warp of the floating-point pipe, of the integer pipe, of the unit for exp2; HMMA with f32 accumulation
local function sass(r)
    local mma = {}
    if r.k16 then
        mma[#mma + 1] = { "HMMA.16816.F32*", "matrix", matrix = r.k16, products = 2048, source = r.mma_source }
    end
    mma[#mma + 1] = { "HMMA.1688.F32*", "matrix", matrix = r.k8, products = 1024, source = r.mma_source }
    return joined(mma, {
        { "HGMMA*", "matrix", unknown = true }, { "*HMMA*", "matrix", unknown = true }, { "IMMA*", "matrix", unknown = true },
        { "HFMA2.MMA*", "move", valu = r.fp },
        { "FFMA*", "fma", valu = r.fp, products = 32 }, { "HFMA2*", "fma", valu = r.fp, products = 64 },
        { "FFMA2*", "fma", valu = r.fp, products = 64 },
        { "MUFU*", "exp", trans = r.mufu },
        { "F2FP*", "convert", integer = 2 }, { "F2F*", "convert", trans = r.mufu }, { "I2F*", "convert", trans = r.mufu },
        { "F2I*", "convert", trans = r.mufu }, { "HADD2.F32*", "convert", valu = r.fp }, { "PRMT*", "convert", integer = 2 },
        { "SHFL*", "lds exchange", bytes = 4 },
        { "FADD*", "add or multiply", valu = r.fp }, { "FMUL*", "add or multiply", valu = r.fp },
        { "HMUL2*", "add or multiply", valu = r.fp }, { "HADD2*", "add or multiply", valu = r.fp },
        { "FMNMX*", "add or multiply", integer = 2 }, { "HMNMX*", "add or multiply", integer = 2 },
        { "LDSM.16.M*.4*", "lds read", bytes = 16 }, { "LDSM.16.M*.2*", "lds read", bytes = 8 }, { "LDSM*", "lds read", bytes = 4 },
        { "LDS*.128*", "lds read", bytes = 16 }, { "LDS*.64*", "lds read", bytes = 8 }, { "LDS*", "lds read", bytes = 4 },
        { "LDGDEPBAR*", "wait" }, { "DEPBAR*", "wait" },
        { "LDGSTS*.128*", "direct load", bytes = 16 }, { "LDGSTS*.64*", "direct load", bytes = 8 }, { "LDGSTS*", "direct load", bytes = 4 },
        { "STS*.128*", "lds write", bytes = 16 }, { "STS*.64*", "lds write", bytes = 8 }, { "STS*", "lds write", bytes = 4 },
        { "LDG*.128*", "global load", bytes = 16 }, { "LDG*.64*", "global load", bytes = 8 }, { "LDG*", "global load", bytes = 4 },
        { "STG*", "global store" }, { "RED*", "global store" }, { "ATOM*", "global store" },
        { "LDL*", "scratch" }, { "STL*", "scratch" }, { "LD.*", "flat" }, { "ST.*", "flat" },
        { "BAR*", "barrier" }, { "WARPSYNC*", "wait" }, { "NOP*", "wait" }, { "BSSY*", "branch" }, { "BSYNC*", "branch" },
        { "BRA*", "branch" }, { "BRX*", "branch" }, { "EXIT*", "branch" }, { "CALL*", "branch" }, { "RET*", "branch" },
        { "ULDC*", "scalar" }, { "U*", "scalar" }, { "R2UR*", "scalar" }, { "S2UR*", "scalar" }, { "LDC*", "other vector" },
        { "CS2R*", "move" }, { "MOV*", "move", integer = 2 }, { "SEL*", "move", integer = 2 }, { "FSEL*", "move", integer = 2 },
        { "IMAD.MOV*", "move", valu = r.fp }, { "IMAD.WIDE*", "other vector", valu = 2 * r.imad }, { "IMAD*", "other vector", valu = r.imad },
        { "*", "other vector", integer = 2 },
    })
end
local warp = { full = 1, wave = 32, scalar = 0, port = 1, source = "cuda" }
local function nvidia(name, peak, peak_source, rates)
    rates.mma_source = rates.mma_source or "tensor"
    return {
        generation = name, granule = 8, unified = true, lds_granule = 128,
        lds_reserved = name == "Turing" and 0 or 1024, peak = peak, peak_source = sources[peak_source],
        rules = expand(sass(rates), warp),
    }
end

-- ---- the generations ----

local function amd(name, granule, unified, peak, peak_source, units, ...)
    return {
        generation = name, granule = granule, unified = unified, lds_granule = 512, lds_reserved = 0,
        peak = peak, peak_source = sources[peak_source],
        rules = expand(joined(memory, ...), units),
    }
end

local generations = {
    { { "gfx900" }, function() return amd("GCN 5", 4, false, 16, "isa", gcn, gcn_vector(16, 16)) end },
    { { "gfx906" }, function() return amd("GCN 5.1", 4, false, 32, "dot2", gcn, gcn_vector(2, 16)) end },
    { { "gfx908" }, function() return amd("CDNA", 4, false, 128, "passes", gcn, mfma_first, mfma_unknown, gcn_vector(2, 16)) end },
    { { "gfx90a" }, function() return amd("CDNA 2", 8, true, 128, "passes", gcn, mfma_first, mfma_unknown, gcn_vector(1, 16)) end },
    { { "gfx942" }, function() return amd("CDNA 3", 8, true, 256, "passes", gcn, mfma_third, mfma_unknown, gcn_vector(1, 16)) end },
    { { "gfx950" }, function()
        return amd("CDNA 4", 8, true, 512, "passes", gcn, mfma_wide, mfma_third, mfma_unknown, gcn_vector(1, 8, "cdna4"))
    end },
    { { "gfx1010" }, function() return amd("RDNA", 8, false, 32, "isa", rdna, rdna_vector(16)) end },
    { { "gfx1011", "gfx1012" }, function() return amd("RDNA", 8, false, 64, "isa", rdna, rdna_vector(16)) end },
    { { "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036" }, function()
        return amd("RDNA 2", 16, false, 64, "isa", rdna, rdna_vector(16))
    end },
    -- three files of 1536 registers a lane are granules of 24, two of 1024 granules of 16
    { { "gfx1100", "gfx1101", "gfx1151" }, function()
        return amd("RDNA 3", 24, false, 128, "rdna3", rdna, wmma(32, "rdna3"), rdna_vector(32))
    end },
    { { "gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153" }, function()
        return amd("RDNA 3", 16, false, 128, "rdna3", rdna, wmma(32, "rdna3"), rdna_vector(32))
    end },
    { { "gfx1200", "gfx1201" }, function()
        return amd("RDNA 4", 24, false, 256, "rdna4", rdna, wmma(16, "rdna4"), rdna_vector(32))
    end },
    { { "sm_75" }, function() return nvidia("Turing", 128, "tensor", { fp = 2, imad = 2, mufu = 8, k8 = 8 }) end },
    { { "sm_80" }, function() return nvidia("Ampere GA100", 256, "tensor", { fp = 2, imad = 2, mufu = 8, k16 = 8, k8 = 4 }) end },
    { { "sm_86" }, function() return nvidia("Ampere GA10x", 128, "tensor", { fp = 1, imad = 2, mufu = 8, k16 = 16, k8 = 8 }) end },
    { { "sm_89" }, function() return nvidia("Ada", 128, "tensor", { fp = 1, imad = 2, mufu = 8, k16 = 16, k8 = 8 }) end },
    { { "sm_90", "sm_90a" }, function()
        return nvidia("Hopper", 512, "tensor", { fp = 1, imad = 2, mufu = 8, k16 = 4 / 0.65, k8 = 2 / 0.65, mma_source = "hopper" })
    end },
    { { "sm_100", "sm_100a" }, function()
        return nvidia("Blackwell GB100", 1024, "tensor", { fp = 1, imad = 2, mufu = 8, k16 = 8, k8 = 4, mma_source = "assumed" })
    end },
    { { "sm_120", "sm_120a" }, function()
        return nvidia("Blackwell GB20x", 128, "tensor", { fp = 1, imad = 2, mufu = 8, k16 = 16, k8 = 8 })
    end },
}

local function find(processor)
    for _, generation in ipairs(generations) do
        for _, name in ipairs(generation[1]) do
            if name == processor then
                return generation[2]()
            end
        end
    end
    return nil
end

return { find = find }
