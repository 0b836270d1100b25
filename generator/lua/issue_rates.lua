-- issue_rates.lua - what one instruction of one wave costs, as data: cycles of the units it keeps busy.
--
-- rules(t) gives the rules of a target, from its row of targets.lua; nil for the host. A rule is
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
-- Whole-unit rates (fp32, exp2, matrix multiply-adds a clock) are targets.lua's; here is what single instructions make of them.
-- A cycle is one of the SIMD or partition; LDS cycles follow from the bytes, the banks and the units that share the LDS.

local sources = {
    isa = "AMD's ISA manuals and targets.lua: a full-rate instruction takes a wave's lanes over the SIMD's fp32 lanes",
    trans = "targets.lua, exp_lanes; on RDNA a unit of its own (RDNA white paper)",
    passes = "LLVM's scheduling models and AMD's matrix instruction calculator: passes of 4 cycles",
    wmma = "GPUOpen, matrix cores of RDNA 3 and RDNA 4: operations a clock and compute unit (targets.lua, matrix_macs)",
    quarter = "AMD's ISA manuals and LLVM: 32-bit integer multiplies at a quarter of the rate",
    cuda = "CUDA C++ programming guide, throughput of native arithmetic instructions a clock and SM, over 4 partitions",
    tensor = "NVIDIA's architecture white papers (targets.lua, matrix_macs)",
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
        if rule.trans_rate then -- on the vector unit, or one slot of it and then a unit of their own
            row.valu, row.trans = units.trans_beside and units.full or units.trans, units.trans_beside and units.trans or 0
            row.source = sources.trans
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
    { "global_load_dwordx3", "global load", bytes = 12 }, { "global_load_b96", "global load", bytes = 12 },
    { "global_load_dwordx2", "global load", bytes = 8 }, { "global_load_b64", "global load", bytes = 8 },
    { "global_load*", "global load", bytes = 4 },
    { "buffer_*inv*", "wait" }, { "buffer_wb*", "wait" }, { "global_inv*", "wait" }, { "global_wb*", "wait" },
    { "global_*", "global store" }, { "flat_*", "flat" }, { "scratch_*", "scratch" },
    { "buffer_*", "scratch" }, -- the vocabulary has none: compilers reach a lane's scratch by them
}

-- what a full-rate vector instruction does, by class; rates are multiples of its cycles
local function vector(double)
    return {
        { "v_exp_*", "exp", trans_rate = true }, { "v_log_*", "exp", trans_rate = true }, { "v_rcp_*", "exp", trans_rate = true },
        { "v_rsq_*", "exp", trans_rate = true }, { "v_sqrt_*", "exp", trans_rate = true }, { "v_sin_*", "exp", trans_rate = true },
        { "v_cos_*", "exp", trans_rate = true },
        { "v_*_f64*", "other vector", rate = double },
        { "v_dot2*_f32_f16*", "dot2", rate = 1, lanes = 2, source = "isa" }, { "v_dot2*_f32_bf16*", "dot2", rate = 1, lanes = 2 },
        { "v_dot4*", "dot2", rate = 1, lanes = 4 }, { "v_dot*", "dot2", rate = 1, lanes = 2 },
        { "v_pk_fma_f32*", "fma", rate = 1, lanes = 2 }, { "v_pk_fma_f16*", "fma", rate = 1, lanes = 2 },
        { "v_pk_fmac_f16*", "fma", rate = 1, lanes = 2 },
        { "v_fma_mix*_f16*", "convert", rate = 1 }, { "v_mad_mix*_f16*", "convert", rate = 1 },
        { "v_fma_mix_f32*", "fma", rate = 1, lanes = 1 }, { "v_mad_mix_f32*", "fma", rate = 1, lanes = 1 },
        { "v_fma_f32*", "fma", rate = 1, lanes = 1 }, { "v_fmac_f32*", "fma", rate = 1, lanes = 1 },
        { "v_dual_fmac_f32", "fma", rate = 1, lanes = 1 }, { "v_dual_fma*", "fma", rate = 1, lanes = 1 },
        { "v_dual_dot2acc*", "dot2", rate = 1, lanes = 2 },
        { "v_mac_f32*", "fma", rate = 1, lanes = 1 }, { "v_mad_f32*", "fma", rate = 1, lanes = 1 },
        { "v_mad_u64_u32*", "other vector", rate = 4, source = "quarter" }, { "v_mad_i64_i32*", "other vector", rate = 4, source = "quarter" },
        { "v_mad_co_u64_u32*", "other vector", rate = 4, source = "quarter" }, { "v_mul_lo_*32*", "other vector", rate = 4, source = "quarter" },
        { "v_mul_hi_*32*", "other vector", rate = 4, source = "quarter" },
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

-- on the vector unit's own lanes
local function wmma(cycles)
    return {
        { "v_wmma_f32_16x16x16_*f16*", "matrix", valu = cycles, matrix = cycles, products = 4096, source = "wmma" },
        { "v_wmma*", "matrix", valu = cycles, matrix = cycles, unknown = true },
        { "v_swmmac*", "matrix", valu = cycles, matrix = cycles, unknown = true },
    }
end

local function amd(t, units)
    local level = t.matrix_level
    units.scalar, units.source, units.trans_beside = units.full, "isa", t.wave == 32
    if t.wave == 32 then
        local cycles = level > 0 and 4096 * t.simds / t.matrix_macs
        return expand(joined(memory, level > 0 and wmma(cycles) or {}, vector(level > 0 and 32 or 16)), units)
    end
    local mfma = level == 0 and {} or joined(level >= 4 and mfma_wide or {}, level >= 3 and mfma_third or mfma_first, mfma_unknown)
    return expand(joined(memory, mfma, vector(level >= 2 and 1 or t.dot2 and 2 or 16)), units)
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
local function nvidia(t, units)
    local level = t.matrix_level
    local macs = t.matrix_macs / t.simds
    local source = "tensor"
    if level == 90 then
        macs, source = 0.65 * macs, "hopper"
    elseif level == 100 then -- tcgen05 has the peak; Ampere's rate for the instruction that it has in common with it
        macs, source = 256, "assumed"
    end
    units.port, units.source, units.scalar = 1, "cuda", 0
    return expand(sass {
        fp = units.full, imad = 2, mufu = units.trans, k16 = level >= 80 and 2048 / macs, k8 = 1024 / macs, mma_source = source,
    }, units)
end

local function rules(t)
    local units = { wave = t.wave, full = t.wave * t.simds / t.fp32_lanes, trans = t.wave * t.simds / t.exp_lanes }
    if t.vendor == "amd" then
        return amd(t, units)
    end
    return t.vendor == "nvidia" and nvidia(t, units) or nil
end

return { rules = rules }
