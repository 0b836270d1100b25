/* simulator.c - the simulated devices: their facts, their program, and the drivers that were asked for so far. */
#include "runtime/simulator.h"

#include "base/environment.h"
#include "base/process.h"
#include "runtime/driver_tables.h"
#include "runtime/runner.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROGRAM_BYTES = 4096, SECONDS_DEFAULT = 600, SECONDS_MAX = 1000000 };

/* what decides how a launch runs; as read from the environment */
struct settings {
    char program[PROGRAM_BYTES];
    long seconds;
    bool keep_folders;
};

bool simulator_is_named(const char *device)
{
    return device != NULL && (strcmp(device, "sim") == 0 || strncmp(device, "sim:", 4) == 0);
}

/* ------------------------------------------------------------------------------------------------ the device */

/* Wave size and a block's shared memory by the beginning of the processor's name, the longest first. The target table
 * has the same for every target in it (a test compares them): here they are needed where no Lua is. */
static const struct {
    const char *processor;
    int32_t wave, shared_kib;
} generations[] = {
    {"gfx950", 64, 160}, {"gfx9", 64, 64},   {"gfx10", 32, 64},  {"gfx11", 32, 64},
    {"gfx12", 32, 64},   {"sm_75", 32, 64},  {"sm_80", 32, 163}, {"sm_87", 32, 163},
    {"sm_8", 32, 99},    {"sm_10", 32, 227}, {"sm_12", 32, 99},  {"sm_9", 32, 227},
};

static uint64_t memory_of(int name)
{
    long pages = sysconf(name), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

attune_status simulator_describe(const char *target, struct driver_device *device, struct error *error)
{
    char text[TARGET_TEXT_BYTES];
    size_t i = 0;
    memset(device, 0, sizeof *device);
    if (target[0] == '\0') {
        return error_set(error, ATTUNE_INVALID, "device \"sim\" lacks its target: sim:gfx906, say");
    }
    attune_status status = target_parse(target, &device->target, error);
    if (status != ATTUNE_OK) {
        return error_prefix(error, "device \"sim:%.100s\"", target);
    }
    if (device->target.vendor == TARGET_HOST) {
        return error_set(error, ATTUNE_INVALID,
                         "device \"sim:%.100s\": a simulator runs a GPU's code; --device host --target gfx906 runs a "
                         "GPU's text on the CPU",
                         target);
    }
    while (i < sizeof generations / sizeof generations[0] &&
           strncmp(device->target.processor, generations[i].processor, strlen(generations[i].processor)) != 0) {
        i++;
    }
    if (i == sizeof generations / sizeof generations[0]) {
        return error_set(
            error, ATTUNE_UNSUPPORTED,
            "device \"sim:%.100s\": nothing is known of this generation; gfx9 to gfx12 and sm_75 to sm_12x "
            "are",
            target);
    }
    target_format(&device->target, text);
    snprintf(device->name, sizeof device->name, "simulated %s", text);
    snprintf(device->driver_version, sizeof device->driver_version, "simulator");
    device->compute_units = 1;
    device->wave_size = generations[i].wave;
    device->max_threads = 1024;
    device->shared_bytes = (uint64_t)generations[i].shared_kib << 10;
    device->memory_bytes = memory_of(_SC_PHYS_PAGES);
    device->memory_free_bytes = memory_of(_SC_AVPHYS_PAGES);
    /* the tightest that a real device of either vendor has, so that grids are cut as there */
    device->grid = (struct grid_limits){.blocks = {0x7fffffff, 65535, 65535}, .work_items = (uint64_t)1 << 32};
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ the program */

attune_status simulator_find(char *path, size_t bytes, struct error *error)
{
    const char *program = environment_get("ATTUNE_SIMULATOR");
    struct error reason = {0};
    if (program == NULL || program[0] == '\0') {
        return error_set(error, ATTUNE_NO_DEVICE,
                         "ATTUNE_SIMULATOR is not set: it names the program that runs each launch (docs/simulator.md)");
    }
    if (program_find(program, path, bytes, &reason) != ATTUNE_OK) {
        return error_set(error, ATTUNE_NO_DEVICE, "ATTUNE_SIMULATOR=%.1000s cannot be run: %.1000s", program,
                         reason.message);
    }
    return ATTUNE_OK;
}

static attune_status read_settings(struct settings *settings, struct error *error)
{
    const char *seconds = environment_get("ATTUNE_SIMULATOR_SECONDS");
    const char *keep = environment_get("ATTUNE_SIMULATOR_KEEP");
    memset(settings, 0, sizeof *settings);
    settings->seconds = SECONDS_DEFAULT;
    if (seconds != NULL && seconds[0] != '\0') {
        char *end;
        settings->seconds = strtol(seconds, &end, 10);
        if (seconds[0] < '0' || seconds[0] > '9' || *end != '\0' || settings->seconds < 1 ||
            settings->seconds > SECONDS_MAX) {
            return error_set(error, ATTUNE_INVALID,
                             "ATTUNE_SIMULATOR_SECONDS=\"%.100s\" is no limit of a launch: whole seconds, 1 to %d, or "
                             "unset it for %d",
                             seconds, SECONDS_MAX, SECONDS_DEFAULT);
        }
    }
    if (keep != NULL && keep[0] != '\0' && strcmp(keep, "0") != 0 && strcmp(keep, "1") != 0) {
        return error_set(error, ATTUNE_INVALID,
                         "ATTUNE_SIMULATOR_KEEP=\"%.100s\" is neither 1 (the folders of launches stay) nor 0", keep);
    }
    settings->keep_folders = keep != NULL && strcmp(keep, "1") == 0;
    return simulator_find(settings->program, sizeof settings->program, error);
}

static attune_status create(const char *target, const struct settings *settings, double seconds, struct driver **driver,
                            struct error *error)
{
    char text[DRIVER_DEVICE_BYTES], canonical[TARGET_TEXT_BYTES];
    struct runner_options options = {
        .program = settings->program, .simulates = text, .seconds = seconds, .keep_folders = settings->keep_folders};
    attune_status status = simulator_describe(target, &options.device, error);
    if (status == ATTUNE_OK) {
        target_format(&options.device.target, canonical);
        snprintf(text, sizeof text, "sim:%s", canonical);
        status = runner_create(&options, driver, error);
    }
    return status;
}

attune_status simulator_create(const char *target, double seconds, struct driver **driver, struct error *error)
{
    struct settings settings;
    struct driver_device device;
    *driver = NULL;
    attune_status status =
        simulator_describe(target, &device, error); /* a wrong name is told before a missing program */
    if (status == ATTUNE_OK) {
        status = read_settings(&settings, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    return create(target, &settings, seconds > 0 ? seconds : (double)settings.seconds, driver, error);
}

/* ------------------------------------------------------------------------------------------------ for the process */

/* Drivers live as long as the process; one for each target and setting that was asked for. */
struct known {
    struct known *next;
    struct target target;
    struct settings settings;
    struct driver *driver;
};

static bool same_target(const struct target *a, const struct target *b)
{
    return strcmp(a->processor, b->processor) == 0 && a->sramecc == b->sramecc && a->xnack == b->xnack;
}

static bool same_settings(const struct settings *a, const struct settings *b)
{
    return strcmp(a->program, b->program) == 0 && a->seconds == b->seconds && a->keep_folders == b->keep_folders;
}

attune_status driver_sim(const char *target, const struct driver **driver, struct error *error)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static struct known *all;
    struct driver_device device;
    *driver = NULL;
    attune_status status = simulator_describe(target, &device, error);
    struct known *made = status == ATTUNE_OK ? calloc(1, sizeof *made) : NULL;
    if (status == ATTUNE_OK) {
        status = made != NULL ? read_settings(&made->settings, error) : error_no_memory(error);
    }
    if (status != ATTUNE_OK) {
        free(made);
        return status;
    }
    made->target = device.target;
    pthread_mutex_lock(&mutex);
    struct known *known = all;
    while (known != NULL &&
           !(same_target(&known->target, &made->target) && same_settings(&known->settings, &made->settings))) {
        known = known->next;
    }
    if (known == NULL) {
        status = create(target, &made->settings, (double)made->settings.seconds, &made->driver, error);
        if (status == ATTUNE_OK) {
            made->next = all;
            all = known = made;
            made = NULL;
        }
    }
    if (status == ATTUNE_OK) {
        *driver = known->driver;
    }
    pthread_mutex_unlock(&mutex);
    free(made);
    return status;
}
