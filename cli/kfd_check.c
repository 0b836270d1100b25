/* kfd_check.c - see kfd_check.h. */
#include "cli/kfd_check.h"

#include "cli/cli.h"
#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { DEVICES_MAX = 64 };

struct check {
    struct generator *generator;
    const struct kfd_topology *topology;
    const char *override; /* NULL unset */
    bool hidden;
    json_t *findings;
    const json_t *devices[DEVICES_MAX]; /* of the driver */
    int device_count;
    bool matched[KFD_NODES_MAX];
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

/* device or node may be NULL */
__attribute__((format(printf, 5, 6))) static void find(struct check *check, const char *verdict, const json_t *device,
                                                       const struct kfd_node *node, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_t *row = json_object();
    json_set_text(row, "verdict", verdict);
    if (device != NULL) {
        json_set_text(row, "device", text_of(device, "device"));
        json_set_text(row, "driver", text_of(device, "target"));
    }
    if (node != NULL) {
        json_set_whole(row, "node", node->number);
        json_set_text(row, "kernel", node->processor);
    }
    json_set_text(row, "text", text);
    json_array_append_new(check->findings, row);
}

/* ---- which node a device is ---- */

/* by its PCI address; where the driver tells none, by its place, if nothing can have hidden a device */
static const struct kfd_node *node_of(struct check *check, int device)
{
    const char *pci = text_of(check->devices[device], "pci");
    for (int i = 0; i < check->topology->count && pci[0] != '\0'; i++) {
        if (strcasecmp(check->topology->nodes[i].pci, pci) == 0) {
            check->matched[i] = true;
            return &check->topology->nodes[i];
        }
    }
    if (pci[0] == '\0' && !check->hidden && check->device_count == check->topology->count) {
        check->matched[device] = true;
        return &check->topology->nodes[device];
    }
    return NULL;
}

/* ---- two processors ---- */

/* the set of processors that run one another's code; its own name for one that there are no facts for */
static void isa_of(struct generator *generator, const char *processor, char isa[TARGET_TEXT_BYTES])
{
    struct target target;
    json_t *facts = NULL;
    snprintf(isa, TARGET_TEXT_BYTES, "%s", processor);
    if (target_parse(processor, &target, NULL) == ATTUNE_OK &&
        generator_target_facts(generator, &target, &facts, NULL) == ATTUNE_OK) {
        snprintf(isa, TARGET_TEXT_BYTES, "%s", text_of(facts, "isa"));
    }
    json_decref(facts);
}

/* gfx1100 -> "gfx11", gfx90a -> "gfx9" */
static bool same_major(const char *a, const char *b)
{
    size_t length = strlen(a);
    return length == strlen(b) && length > 5 && strncmp(a, b, length - 2) == 0;
}

static void explain_processors(struct check *check, const json_t *device, const struct kfd_node *node,
                               const char *claimed)
{
    char isa[TARGET_TEXT_BYTES], claimed_isa[TARGET_TEXT_BYTES], cause[256];
    isa_of(check->generator, node->processor, isa);
    isa_of(check->generator, claimed, claimed_isa);
    if (check->override != NULL) {
        snprintf(cause, sizeof cause, "HSA_OVERRIDE_GFX_VERSION=%.40s makes the driver say %s", check->override,
                 claimed);
    } else {
        snprintf(cause, sizeof cause, "the driver says %s, though HSA_OVERRIDE_GFX_VERSION is not set here", claimed);
    }
    if (strcmp(isa, claimed_isa) == 0) {
        find(check, "same_isa", device, node,
             "%s of a %s: legitimate, both run the same code. attune needs no override: it makes code for %s itself, "
             "and "
             "records made under one name are not found under the other",
             cause, node->processor, node->processor);
    } else if (same_major(node->processor, claimed)) {
        find(check, "related", device, node,
             "%s of a %s: that is code for another processor of its family, made for another number of registers and "
             "other "
             "hazards. It may run; nobody promises it. Unset HSA_OVERRIDE_GFX_VERSION (and "
             "HSA_OVERRIDE_GFX_VERSION_%d): "
             "attune makes code for %s itself",
             cause, node->processor, node->number, node->processor);
    } else {
        find(check, "foreign", device, node,
             "%s of a %s, whose instructions are others: kernels will fault or give wrong numbers. Unset "
             "HSA_OVERRIDE_GFX_VERSION (and HSA_OVERRIDE_GFX_VERSION_%d) wherever it is set: shell, unit file, "
             "container",
             cause, node->processor, node->number);
    }
}

/* ---- numbers of one processor ---- */

/* HIP counts work-group processors, of two compute units, on RDNA */
static bool same_units(int64_t driver, int64_t kernel, int64_t wave)
{
    return driver == kernel || (wave == 32 && 2 * driver == kernel);
}

static void compare_numbers(struct check *check, const json_t *device, const struct kfd_node *node)
{
    int64_t units = json_integer_value(json_object_get(device, "compute_units"));
    int64_t wave = json_integer_value(json_object_get(device, "wave_size"));
    int64_t shared = json_integer_value(json_object_get(device, "shared_bytes"));
    int before = (int)json_array_size(check->findings);
    if (node->compute_units > 0 && !same_units(units, node->compute_units, node->wave_size)) {
        find(check, "differs", device, node,
             "the driver gives %lld of the kernel's %lld compute units: a partition, or a mask (HSA_CU_MASK, "
             "ROC_GLOBAL_CU_MASK). Records are kept for %lld units",
             (long long)units, (long long)node->compute_units, (long long)units);
    }
    if (node->wave_size > 0 && wave != node->wave_size) {
        find(check, "differs", device, node,
             "the driver says waves of %lld, the kernel %lld: code is made for the processor's own; update ROCm",
             (long long)wave, (long long)node->wave_size);
    }
    if (node->lds_bytes > 0 && shared != node->lds_bytes) {
        find(check, "differs", device, node,
             "the driver says %lld bytes of shared memory a block, the kernel %lld: update ROCm or the kernel driver",
             (long long)shared, (long long)node->lds_bytes);
    }
    if ((int)json_array_size(check->findings) == before) {
        find(check, "agrees", device, node, "driver and kernel say the same: %s, %lld compute units, waves of %lld",
             node->processor, (long long)node->compute_units, (long long)node->wave_size);
    }
}

static void check_device(struct check *check, int index)
{
    const json_t *device = check->devices[index];
    char claimed[TARGET_TEXT_BYTES];
    snprintf(claimed, sizeof claimed, "%s", text_of(device, "target"));
    claimed[strcspn(claimed, ":")] = '\0';
    const struct kfd_node *node = node_of(check, index);
    if (node == NULL) {
        find(check, "unmatched", device, NULL, "which of the kernel's %d GPUs it is cannot be told%s",
             check->topology->count, check->hidden ? ": a variable hides devices" : "");
    } else if (node->processor[0] == '\0') {
        find(check, "unmatched", device, node, "this kernel does not name processors: Linux 5.14 and later do");
    } else if (strcmp(node->processor, claimed) != 0) {
        explain_processors(check, device, node, claimed);
    } else {
        compare_numbers(check, device, node);
    }
}

/* ---- all ---- */

static void check_override(struct check *check)
{
    char processor[TARGET_TEXT_BYTES];
    if (check->override == NULL) {
        return;
    }
    if (!kfd_override(check->override, processor)) {
        find(check, "override", NULL, NULL,
             "HSA_OVERRIDE_GFX_VERSION='%.60s' is no version: three numbers such as 10.3.0, or unset it",
             check->override);
        return;
    }
    for (int i = 0; i < check->topology->count; i++) {
        if (strcmp(check->topology->nodes[i].processor, processor) == 0) {
            return;
        }
    }
    if (check->device_count == 0 && check->topology->count > 0) {
        find(check, "override", NULL, NULL,
             "HSA_OVERRIDE_GFX_VERSION=%.40s asks for %s, which is none of the kernel's GPUs, and the driver lists no "
             "device: unset it and look again",
             check->override, processor);
    }
}

static json_t *nodes_json(const struct kfd_topology *topology)
{
    json_t *rows = json_array();
    for (int i = 0; i < topology->count; i++) {
        const struct kfd_node *node = &topology->nodes[i];
        json_t *row = json_object();
        json_set_whole(row, "node", node->number);
        json_set_text(row, "processor", node->processor);
        json_set_text(row, "pci", node->pci);
        json_set_whole(row, "compute_units", node->compute_units);
        json_set_whole(row, "wave_size", node->wave_size);
        json_set_whole(row, "lds_bytes", node->lds_bytes);
        json_set_whole(row, "max_waves", node->max_waves);
        json_array_append_new(rows, row);
    }
    return rows;
}

static void collect_devices(struct check *check, const json_t *drivers)
{
    size_t index, at;
    json_t *driver, *device;
    json_array_foreach(drivers, index, driver)
    {
        json_array_foreach(json_object_get(driver, "devices"), at, device)
        {
            if (strcmp(text_of(driver, "driver"), "hip") == 0 && check->device_count < DEVICES_MAX &&
                text_of(device, "target")[0] != '\0') {
                check->devices[check->device_count++] = device;
            }
        }
    }
}

json_t *kfd_check(struct generator *generator, const json_t *drivers, const struct kfd_topology *topology,
                  const char *override, bool hidden)
{
    struct check check = {.generator = generator,
                          .topology = topology,
                          .override = override != NULL && override[0] != '\0' ? override : NULL,
                          .hidden = hidden,
                          .findings = json_array()};
    collect_devices(&check, drivers);
    for (int i = 0; i < check.device_count; i++) {
        check_device(&check, i);
    }
    bool all_matched = true;
    for (size_t i = 0; i < json_array_size(check.findings); i++) {
        all_matched = all_matched && strcmp(text_of(json_array_get(check.findings, i), "verdict"), "unmatched") != 0;
    }
    for (int i = 0; i < topology->count && all_matched; i++) {
        if (!check.matched[i]) {
            const struct kfd_node *node = &topology->nodes[i];
            find(&check, "unseen", NULL, node, "the kernel has a %s%s%s that no driver lists: %s",
                 node->processor[0] != '\0' ? node->processor : "GPU", node->pci[0] != '\0' ? " at " : "", node->pci,
                 hidden ? "HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or GPU_DEVICE_ORDINAL hides it"
                        : "libamdhip64 is missing or its release leaves this processor out, or this user may not open "
                          "/dev/kfd and /dev/dri (groups render and video)");
        }
    }
    check_override(&check);
    json_t *kfd = json_object();
    json_object_set_new(kfd, "nodes", nodes_json(topology));
    json_set_whole(kfd, "unreadable", topology->troubles);
    if (topology->troubles > 0) {
        json_set_text(kfd, "trouble", topology->trouble);
    }
    json_object_set_new(kfd, "findings", check.findings);
    return kfd;
}

void print_kfd(const json_t *kfd)
{
    size_t index;
    json_t *row;
    const char *reason = json_string_value(json_object_get(kfd, "reason"));
    if (reason != NULL) {
        printf("\nAMD GPUs as the kernel sees them: %s\n", reason);
        return;
    }
    printf("\nAMD GPUs as the kernel sees them: %d\n", (int)json_array_size(json_object_get(kfd, "nodes")));
    if (json_object_get(kfd, "trouble") != NULL) {
        json_int_t more = json_integer_value(json_object_get(kfd, "unreadable")) - 1;
        printf("  not understood: %s\n", text_of(kfd, "trouble"));
        if (more > 0) {
            printf("  nor %lld more node%s\n", (long long)more, more == 1 ? "" : "s");
        }
    }
    json_array_foreach(json_object_get(kfd, "findings"), index, row)
    {
        const char *device = text_of(row, "device");
        char plain[1024];
        snprintf(plain, sizeof plain, "%s", text_of(row, "text"));
        text_make_plain(plain);
        printf("  %s%s%s: %s\n", device, device[0] != '\0' ? " " : "", text_of(row, "verdict"), plain);
    }
}
