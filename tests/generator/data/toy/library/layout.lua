return {
    arguments = { { "x", "pointer" }, { "y", "pointer" }, { "count", "i32" }, { "factor", "f32" } },
    element = function(dtype)
        return dtype == "f16" and "half_t" or "float"
    end,
}
