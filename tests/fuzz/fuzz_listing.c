/* Any bytes as the disassembly of an AMD or NVIDIA object (the first byte says which): what is read stays within the
 * text and the limits, and what loops cost is finite, not negative, and no more often than their rounds say. */
#include "generator/generator.h"
#include "generator/issue.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>

static struct issue_report report; /* large; the fuzzer has one thread */

static void check_listing(const struct listing *listing, const char *text, size_t length)
{
    HOLDS(listing->count > 0 && listing->count <= LISTING_INSTRUCTIONS_MAX, "%d instructions", listing->count);
    for (int i = 0; i < listing->count; i++) {
        const struct instruction *at = &listing->items[i];
        const struct slice parts[] = {at->mnemonic, at->operands};
        for (int k = 0; k < 2; k++) {
            HOLDS(parts[k].text >= text && parts[k].text + parts[k].length <= text + length,
                  "a slice outside the text");
        }
        HOLDS(at->mnemonic.length > 0, "no mnemonic");
        HOLDS(at->target >= -1 && at->target < listing->count, "branch to %d", at->target);
        HOLDS(at->target < 0 || at->branches, "a target without branch");
        HOLDS(i == 0 || at->address > listing->items[i - 1].address, "addresses");
    }
}

static void check_totals(const struct issue_totals *totals, const char *what)
{
    for (int i = 0; i < ISSUE_CLASSES; i++) {
        HOLDS(isfinite(totals->count[i]) && totals->count[i] >= 0, "%s: %g", what, totals->count[i]);
        HOLDS(isfinite(totals->class_cycles[i]) && totals->class_cycles[i] >= 0, "%s: %g", what,
              totals->class_cycles[i]);
    }
    for (int i = 0; i < ISSUE_UNITS; i++) {
        HOLDS(isfinite(totals->cycles[i]) && totals->cycles[i] >= 0, "%s: %g", what, totals->cycles[i]);
    }
}

static void check_report(const struct listing *listing, const struct issue_rates *rates)
{
    double instructions = 0;
    check_totals(&report.whole, "whole");
    for (int i = 0; i < ISSUE_CLASSES; i++) {
        instructions += report.whole.count[i];
    }
    /* dual instructions count twice, unknown mnemonics not at all */
    HOLDS(instructions <= 2.0 * listing->count, "%g of %d", instructions, listing->count);
    HOLDS(report.hottest < report.loop_count && (report.hottest >= 0) == (report.loop_count > 0), "%d", report.hottest);
    for (int i = 0; i < report.loop_count; i++) {
        const struct issue_loop *loop = &report.loops[i];
        check_totals(&loop->totals, "loop");
        HOLDS(loop->parent < i, "a loop before the one around it");
        HOLDS(loop->begin <= loop->end && loop->instructions > 0 && loop->instructions <= listing->count, "extent");
        HOLDS(!loop->counted || (loop->trips > 0 && loop->parent >= 0), "counted without rounds");
        HOLDS(loop->trips >= 0 && loop->trips <= 4096, "%d rounds", loop->trips);
        HOLDS(loop->beside_cycles >= -1e-6, "%g beside", loop->beside_cycles);
    }
    struct issue_occupancy occupancy = {.waves = 1};
    json_t *json = issue_report_to_json(&report, rates, &occupancy);
    HOLDS(json_is_object(json), "no JSON");
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"gfx906", "gfx1100", "sm_80", "gfx942"};
    static struct issue_rates rates[4];
    static bool loaded;
    if (!loaded) {
        struct generator *generator;
        HOLDS(generator_create(&(struct generator_options){.template_path = ""}, &generator, NULL) == ATTUNE_OK,
              "generator");
        for (int i = 0; i < 4; i++) {
            struct target target;
            HOLDS(target_parse(names[i], &target, NULL) == ATTUNE_OK &&
                      issue_rates_load(generator, &target, &rates[i], NULL) == ATTUNE_OK,
                  "%s", names[i]);
        }
        generator_destroy(generator);
        loaded = true;
    }
    if (size == 0) {
        return 0;
    }
    int which = data[0] % 4;
    uint8_t *text = fuzz_bytes(data + 1, size - 1);
    struct listing listing;
    struct error error = {.message = ""};
    attune_status status = listing_parse((const char *)text, size - 1, which == 2 ? TARGET_NVIDIA : TARGET_AMD,
                                         data[0] & 4 ? "kernel" : NULL, &listing, &error);
    fuzz_check_error(status, &error);
    if (status == ATTUNE_OK) {
        check_listing(&listing, (const char *)text, size - 1);
        status = issue_analyse(&listing, &rates[which], &report, &error);
        fuzz_check_error(status, &error);
        if (status == ATTUNE_OK) {
            check_report(&listing, &rates[which]);
        }
        listing_free(&listing);
    }
    free(text);
    return 0;
}
