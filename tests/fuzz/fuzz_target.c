/* Target IDs: `device` newline `code`. Canonical text reads back as the same target; whoever accepts a code's target
 * accepts what it prints. */
#include "base/target.h"
#include "tests/fuzz/fuzz.h"

static bool read_target(const char *text, struct target *target)
{
    struct error error = {.message = ""};
    attune_status status = target_parse(text, target, &error);
    fuzz_check_error(status, &error);
    if (status != ATTUNE_OK) {
        return false;
    }
    char canonical[TARGET_TEXT_BYTES], again[TARGET_TEXT_BYTES];
    struct target second;
    target_format(target, canonical);
    HOLDS(target_parse(canonical, &second, NULL) == ATTUNE_OK, "'%s' is not read back", canonical);
    target_format(&second, again);
    HOLDS(strcmp(canonical, again) == 0, "'%s' becomes '%s'", canonical, again);
    HOLDS(second.vendor == target->vendor && second.sramecc == target->sramecc && second.xnack == target->xnack,
          "'%s' reads back as another target", canonical);
    HOLDS(target_accepts(target, target, NULL) == ATTUNE_OK, "'%s' does not run its own code", canonical);
    if (target_emulated(target)[0] != '\0') {
        HOLDS(target_parse(target_emulated(target), &second, NULL) == ATTUNE_OK && second.vendor != TARGET_HOST,
              "'%s' emulates no target", canonical);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char *second = strchr(text, '\n');
    struct target device, code;
    if (second != NULL) {
        *second++ = '\0';
    }
    if (read_target(text, &device) && second != NULL && read_target(second, &code)) {
        struct error error = {.message = ""};
        fuzz_check_error(target_accepts(&device, &code, &error), &error);
    }
    free(text);
    return 0;
}
