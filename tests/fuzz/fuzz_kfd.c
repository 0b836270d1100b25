/* A node's properties as the kernel prints them: what is accepted is a CPU, or a GPU whose processor is a target and
 * whose numbers are none that no GPU has; the processor's own version reads back as it. Up to the first newline it is
 * also a value of HSA_OVERRIDE_GFX_VERSION. */
#include "cli/kfd.h"

#include "tests/fuzz/fuzz.h"

static void check_processor(const char *processor)
{
    struct target target;
    HOLDS(target_parse(processor, &target, NULL) == ATTUNE_OK && target.vendor == TARGET_AMD, "'%s' is no AMD target",
          processor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kfd_node node;
    struct error error = {.message = ""};
    bool gpu = false;
    attune_status status = kfd_parse((const char *)data, size, &node, &gpu, &error);
    fuzz_check_error(status, &error);
    HOLDS(status == ATTUNE_OK || !gpu, "%s", "a refused file is a GPU");
    if (gpu && node.processor[0] != '\0') {
        check_processor(node.processor);
    }
    if (gpu) {
        HOLDS(node.compute_units >= 0 && node.compute_units <= 1 << 20 && node.wave_size <= 1024 &&
                  node.lds_bytes <= INT64_C(1) << 30,
              "%lld units", (long long)node.compute_units);
        HOLDS(node.pci[0] == '\0' || strlen(node.pci) == 12, "'%s' is no PCI address", node.pci);
    }
    char *text = fuzz_text(data, size), processor[TARGET_TEXT_BYTES];
    text[strcspn(text, "\n")] = '\0';
    if (kfd_override(text, processor)) {
        check_processor(processor);
    }
    free(text);
    return 0;
}
