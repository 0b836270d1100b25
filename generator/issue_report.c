/* issue_report.c - what bounds an iteration, and all that was found as JSON. */
#include "generator/issue.h"

const struct issue_totals *issue_hottest(const struct issue_report *report)
{
    return report->hottest >= 0 ? &report->loops[report->hottest].totals : &report->whole;
}

struct issue_bound issue_bound_of(const struct issue_report *report, const struct issue_rates *rates, double waves)
{
    const struct issue_totals *totals = issue_hottest(report);
    enum issue_class multiply = report->multiply;
    struct issue_bound bound = {.unit = ISSUE_UNIT_VECTOR};
    for (int unit = 0; unit < ISSUE_UNITS; unit++) {
        if (totals->cycles[unit] > bound.cycles) {
            bound.cycles = totals->cycles[unit];
            bound.unit = (enum issue_unit)unit;
        }
    }
    /* where matrix instructions run beside the vector unit, whichever of the two has more to do */
    double of = totals->cycles[ISSUE_UNIT_VECTOR];
    if (multiply == ISSUE_MATRIX && totals->cycles[ISSUE_UNIT_MATRIX] > of) {
        of = totals->cycles[ISSUE_UNIT_MATRIX];
    }
    bound.multiply_share = of > 0 ? totals->class_cycles[multiply] / of : 0;
    if (bound.cycles > 0) {
        bound.share_of_peak = totals->products[multiply] / (rates->peak * bound.cycles) * (waves < 1 ? waves : 1);
    }
    return bound;
}

/* ---- JSON ---- */

static void add_number(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key,
                        value == (double)(json_int_t)value ? json_integer((json_int_t)value) : json_real(value));
}

static json_t *widths_to_json(const double widths[17])
{
    json_t *object = json_object();
    for (int bytes = 1; bytes < 17; bytes++) {
        if (widths[bytes] > 0) {
            char key[16];
            (void)snprintf(key, sizeof key, "%d", bytes);
            add_number(object, key, widths[bytes]);
        }
    }
    return object;
}

static json_t *totals_to_json(const struct issue_totals *totals)
{
    json_t *object = json_object(), *classes = json_object(), *units = json_object();
    for (int i = 0; i < ISSUE_CLASSES; i++) {
        if (totals->count[i] > 0) {
            json_t *row = json_object();
            add_number(row, "instructions", totals->count[i]);
            add_number(row, "cycles", totals->class_cycles[i]);
            json_object_set_new(classes, issue_class_name((enum issue_class)i), row);
        }
    }
    for (int i = 0; i < ISSUE_UNITS; i++) {
        if (totals->cycles[i] > 0) {
            add_number(units, issue_unit_name((enum issue_unit)i), totals->cycles[i]);
        }
    }
    json_object_set_new(object, "classes", classes);
    json_object_set_new(object, "unit_cycles", units);
    json_object_set_new(object, "lds_reads_by_bytes", widths_to_json(totals->lds_read));
    json_object_set_new(object, "lds_writes_by_bytes", widths_to_json(totals->lds_write));
    json_object_set_new(object, "global_loads_by_bytes", widths_to_json(totals->global_load));
    json_object_set_new(object, "direct_loads_by_bytes", widths_to_json(totals->direct_load));
    add_number(object, "without_published_cycles", totals->unknown);
    return object;
}

static json_t *loop_to_json(const struct issue_report *report, int index)
{
    const struct issue_loop *loop = &report->loops[index];
    json_t *object = json_object();
    char address[24];
    (void)snprintf(address, sizeof address, "0x%llx", (unsigned long long)loop->begin);
    json_object_set_new(object, "begin", json_string(address));
    (void)snprintf(address, sizeof address, "0x%llx", (unsigned long long)loop->end);
    json_object_set_new(object, "end", json_string(address));
    json_object_set_new(object, "inside", loop->parent >= 0 ? json_integer(loop->parent) : json_null());
    json_object_set_new(object, "trips", loop->trips > 0 ? json_integer(loop->trips) : json_null());
    json_object_set_new(object, "counted_in_it", json_boolean(loop->counted));
    add_number(object, "instructions", loop->instructions);
    add_number(object, "products", loop->totals.products[report->multiply]);
    add_number(object, "vector_cycles", loop->totals.cycles[ISSUE_UNIT_VECTOR]);
    add_number(object, "matrix_cycles", loop->totals.cycles[ISSUE_UNIT_MATRIX]);
    add_number(object, "cycles_beside_the_path", loop->beside_cycles);
    return object;
}

json_t *issue_report_to_json(const struct issue_report *report, const struct issue_rates *rates,
                             const struct issue_occupancy *occupancy)
{
    struct issue_bound bound = issue_bound_of(report, rates, occupancy->waves);
    json_t *object = json_object(), *loops = json_array(), *waves = json_object(), *limit = json_object();
    for (int i = 0; i < report->loop_count; i++) {
        json_array_append_new(loops, loop_to_json(report, i));
    }
    add_number(waves, "waves", occupancy->waves);
    add_number(waves, "by_registers", occupancy->by_registers);
    add_number(waves, "by_lds", occupancy->by_lds);
    add_number(waves, "by_target", occupancy->by_target);
    json_object_set_new(limit, "unit", json_string(issue_unit_name(bound.unit)));
    add_number(limit, "cycles", bound.cycles);
    add_number(limit, "share_of_peak", bound.share_of_peak);
    add_number(limit, "multiply_share", bound.multiply_share);
    json_object_set_new(object, "generation", json_string(rates->generation));
    add_number(object, "peak_products_a_clock", rates->peak);
    json_object_set_new(object, "peak_source", json_string(rates->peak_source));
    json_object_set_new(object, "why", json_string(report->why));
    json_object_set_new(object, "hottest", report->hottest >= 0 ? json_integer(report->hottest) : json_null());
    json_object_set_new(object, "loops", loops);
    json_object_set_new(object, "multiply", json_string(issue_class_name(report->multiply)));
    add_number(object, "products", issue_hottest(report)->products[report->multiply]);
    json_object_set_new(object, "iteration", totals_to_json(issue_hottest(report)));
    json_object_set_new(object, "bound", limit);
    json_object_set_new(object, "waves_a_simd", waves);
    return object;
}
