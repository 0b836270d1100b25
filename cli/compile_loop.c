/* compile_loop.c - the report of generator/issue.h for people. */
#include "cli/compile_loop.h"

#include "cli/table.h"
#include "generator/issue.h"

#include <stdlib.h>

/* whole, or with the one decimal that means something: loops inside loops share out their cycles */
static const char *number(double value, char text[32])
{
    bool whole = value == (double)(long long)value;
    snprintf(text, 32, "%.*f", whole ? 0 : 1, value);
    return text;
}

/* " 16 B: 128, 4 B: 2" behind the class whose widths these are */
static void print_widths(const double widths[17], struct buffer *text)
{
    for (int bytes = 16; bytes > 0; bytes--) {
        if (widths[bytes] > 0) {
            char count[32];
            buffer_format(text, "%s%d B: %s", text->length > 0 ? ", " : "", bytes, number(widths[bytes], count));
        }
    }
}

static void print_mix(const struct issue_totals *totals)
{
    struct table table;
    table_begin(&table, "class|>instructions|>cycles|bytes a lane");
    for (int i = 0; i < ISSUE_CLASSES; i++) {
        struct buffer widths = BUFFER_INIT;
        char text[32];
        if (totals->count[i] <= 0) {
            continue;
        }
        const double *of = i == ISSUE_LDS_READ      ? totals->lds_read
                           : i == ISSUE_LDS_WRITE   ? totals->lds_write
                           : i == ISSUE_GLOBAL_LOAD ? totals->global_load
                           : i == ISSUE_DIRECT_LOAD ? totals->direct_load
                                                    : NULL;
        if (of != NULL) {
            print_widths(of, &widths);
        }
        table_cell(&table, "%s", issue_class_name((enum issue_class)i));
        table_cell(&table, "%s", number(totals->count[i], text));
        table_cell(&table, "%s", number(totals->class_cycles[i], text));
        table_cell(&table, "%s", buffer_string(&widths));
        buffer_free(&widths);
    }
    table_end(&table, stdout);
}

static void print_units(const struct issue_report *report, const struct issue_rates *rates,
                        const struct issue_occupancy *occupancy)
{
    const struct issue_totals *totals = issue_hottest(report);
    struct issue_bound bound = issue_bound_of(report, rates, occupancy->waves);
    struct table table;
    char text[32];
    table_begin(&table, "unit|>cycles|");
    for (int i = 0; i < ISSUE_UNITS; i++) {
        if (totals->cycles[i] > 0) {
            table_cell(&table, "%s", issue_unit_name((enum issue_unit)i));
            table_cell(&table, "%s", number(totals->cycles[i], text));
            table_cell(&table, "%s", (int)bound.unit == i ? "bounds" : "");
        }
    }
    table_end(&table, stdout);
    printf("%.4g waves a SIMD (registers %.4g, LDS %.4g, target %.4g)\n", occupancy->waves, occupancy->by_registers,
           occupancy->by_lds, occupancy->by_target);
    printf("multiply by %s: %.1f %% of the cycles of the units that compute; %s bounds %s to %.1f %% of the target's "
           "peak, %s "
           "multiply-adds a clock and SIMD (%s)\n",
           issue_class_name(report->multiply), 100 * bound.multiply_share, issue_unit_name(bound.unit),
           report->hottest >= 0 ? "the loop" : "the code", 100 * bound.share_of_peak, number(rates->peak, text),
           rates->peak_source);
    if (totals->unknown > 0) {
        printf("%s instructions have no published cycles and count as none\n", number(totals->unknown, text));
    }
}

static void print_report(const struct issue_report *report, const struct issue_rates *rates,
                         const struct issue_occupancy *occupancy, const char *target)
{
    if (report->hottest < 0) {
        printf("%s (%s), %s\n", target, rates->generation, report->why);
    } else {
        const struct issue_loop *loop = &report->loops[report->hottest];
        printf("%s (%s), loop 0x%llx to 0x%llx: %s\n", target, rates->generation, (unsigned long long)loop->begin,
               (unsigned long long)loop->end, report->why);
        for (int i = 0; i < report->loop_count; i++) {
            if (report->loops[i].counted && report->loops[i].parent == report->hottest) {
                printf("  with the loop 0x%llx to 0x%llx %d times\n", (unsigned long long)report->loops[i].begin,
                       (unsigned long long)report->loops[i].end, report->loops[i].trips);
            }
        }
        if (loop->beside_cycles > 0) {
            char cycles[32];
            printf("  one iteration on the cheapest path with every multiply; %s cycles of blocks beside it are "
                   "left out\n",
                   number(loop->beside_cycles, cycles));
        }
    }
    print_mix(issue_hottest(report));
    print_units(report, rates, occupancy);
}

attune_status compile_loop(struct cli *cli, const struct target *target, const struct buffer *listing,
                           const struct launch *launch, const struct resources *resources, json_t *row,
                           struct error *error)
{
    struct listing parsed = {0};
    struct issue_rates rates = {.rule_count = 0};
    struct issue_occupancy occupancy;
    struct issue_report *report = calloc(1, sizeof *report);
    attune_status status = report != NULL ? cli_generator(cli, error) : error_no_memory(error);
    if (status == ATTUNE_OK) {
        status = issue_rates_load(cli->generator, target, &rates, error);
    }
    if (status == ATTUNE_OK) {
        status = listing_parse(buffer_string(listing), listing->length, target->vendor, launch->kernel, &parsed, error);
    }
    if (status == ATTUNE_OK) {
        status = issue_analyse(&parsed, &rates, report, error);
    }
    if (status == ATTUNE_OK) {
        status = issue_occupancy(cli->generator, target, &rates, resources, (int)launch->threads,
                                 (int)launch->dynamic_shared_bytes, &occupancy, error);
    }
    if (status == ATTUNE_OK) {
        json_object_set_new(row, "loop", issue_report_to_json(report, &rates, &occupancy));
        if (!cli->json) {
            print_report(report, &rates, &occupancy, target->processor);
        }
    }
    listing_free(&parsed);
    issue_rates_free(&rates);
    free(report);
    return status == ATTUNE_OK ? ATTUNE_OK : error_prefix(error, "--loop");
}
