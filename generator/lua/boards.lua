-- boards.lua: what cards carry one processor: compute units, memory and clock, from the makers' data sheets.
--
-- Facts of targets.lua hold for every card of a target; these do not, so nothing that is generated depends on them. They let
-- people compare what their driver says, and give peaks a clock. units are those in use on one device of the driver.
--
-- name, target, units, GB of memory, its kind, GB a second, MHz at boost

return {
    { "Instinct MI50", "gfx906", 60, 16, "HBM2", 1024, 1725 },
    { "Instinct MI60", "gfx906", 64, 32, "HBM2", 1024, 1800 },
    { "Radeon VII", "gfx906", 60, 16, "HBM2", 1024, 1750 },
    { "Instinct MI100", "gfx908", 120, 32, "HBM2", 1229, 1502 },
    { "Instinct MI210", "gfx90a", 104, 64, "HBM2e", 1638, 1700 },
    { "Instinct MI250X, one of two dies", "gfx90a", 110, 64, "HBM2e", 1638, 1700 },
    { "Instinct MI300X", "gfx942", 304, 192, "HBM3", 5325, 2100 },
    { "Instinct MI355X", "gfx950", 256, 288, "HBM3E", 8000, 2400 },
    { "Radeon RX 5700 XT", "gfx1010", 40, 8, "GDDR6", 448, 1905 },
    { "Radeon RX 6900 XT", "gfx1030", 80, 16, "GDDR6", 512, 2250 },
    { "Radeon RX 6700 XT", "gfx1031", 40, 12, "GDDR6", 384, 2581 },
    { "Radeon RX 6600 XT", "gfx1032", 32, 8, "GDDR6", 256, 2589 },
    { "Radeon RX 7900 XTX", "gfx1100", 96, 24, "GDDR6", 960, 2500 },
    { "Radeon RX 7800 XT", "gfx1101", 60, 16, "GDDR6", 624, 2430 },
    { "Radeon RX 7600", "gfx1102", 32, 8, "GDDR6", 288, 2655 },
    { "Radeon RX 9060 XT", "gfx1200", 32, 16, "GDDR6", 320, 3130 },
    { "Radeon RX 9070 XT", "gfx1201", 64, 16, "GDDR6", 640, 2970 },
    { "T4", "sm_75", 40, 16, "GDDR6", 320, 1590 },
    { "A100 SXM 80GB", "sm_80", 108, 80, "HBM2e", 2039, 1410 },
    { "A40", "sm_86", 84, 48, "GDDR6", 696, 1740 },
    { "GeForce RTX 3090", "sm_86", 82, 24, "GDDR6X", 936, 1695 },
    { "L40S", "sm_89", 142, 48, "GDDR6", 864, 2520 },
    { "GeForce RTX 4090", "sm_89", 128, 24, "GDDR6X", 1008, 2520 },
    { "H100 SXM", "sm_90a", 132, 80, "HBM3", 3350, 1830 },
    { "H200 SXM", "sm_90a", 132, 141, "HBM3e", 4800, 1830 },
    { "GeForce RTX 5090", "sm_120a", 170, 32, "GDDR7", 1792, 2407 },
}
