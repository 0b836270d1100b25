/* tuned.c - see tuned.h. */
#include "cli/tuned.h"

#include "autotune/publish.h"

#include <stdlib.h>
#include <string.h>

/* the records of one device and specialisation */
struct shelf {
    struct shelf *next;
    char folder[128], specialisation[PROBLEM_TEXT_BYTES];
    struct record *records;
    int count;
};

struct tuned {
    struct store *store;
    struct generator *generator;
    bool default_will_do;
    struct shelf *shelves;
    /* the template asked about last, by "family/template" and target, and its digest */
    char template[CANDIDATE_TEXT_BYTES], target[TARGET_TEXT_BYTES], digest[DIGEST_HEX_BYTES];
};

struct tuned *tuned_create(struct store *store, struct generator *generator, bool default_will_do)
{
    struct tuned *known = calloc(1, sizeof *known);
    if (known != NULL) {
        known->store = store;
        known->generator = generator;
        known->default_will_do = default_will_do;
    }
    return known;
}

void tuned_free(struct tuned *known)
{
    while (known != NULL && known->shelves != NULL) {
        struct shelf *shelf = known->shelves;
        known->shelves = shelf->next;
        for (int i = 0; i < shelf->count; i++) {
            record_free(&shelf->records[i]);
        }
        free(shelf->records);
        free(shelf);
    }
    free(known);
}

static struct shelf *find_shelf(struct tuned *known, const char *folder, const char *specialisation)
{
    struct shelf *shelf = known->shelves;
    while (shelf != NULL &&
           (strcmp(shelf->folder, folder) != 0 || strcmp(shelf->specialisation, specialisation) != 0)) {
        shelf = shelf->next;
    }
    if (shelf != NULL || (shelf = calloc(1, sizeof *shelf)) == NULL) {
        return shelf;
    }
    snprintf(shelf->folder, sizeof shelf->folder, "%s", folder);
    snprintf(shelf->specialisation, sizeof shelf->specialisation, "%s", specialisation);
    shelf->next = known->shelves;
    known->shelves = shelf;
    if (store_records(known->store, folder, specialisation, &shelf->records, &shelf->count, NULL) != ATTUNE_OK) {
        shelf->count = 0;
    }
    return shelf;
}

/* would the record's candidate be expanded from the same template today? */
static bool is_of_todays_template(struct tuned *known, const struct record *record, const struct listed_device *device,
                                  const struct problem *problem)
{
    const size_t length = strcspn(record->candidate, " ");
    if (strlen(known->template) == length && strncmp(known->template, record->candidate, length) == 0 &&
        strcmp(known->target, record->device.target) == 0) {
        return strcmp(known->digest, record->template_digest) == 0;
    }
    struct candidate candidate;
    struct expansion expansion = {0};
    attune_status status =
        candidate_parse(known->generator, record->candidate, problem, &device->facts.target, &candidate, NULL);
    if (status == ATTUNE_OK) {
        status = candidate_expand(known->generator, &candidate, problem, &device->facts.target, &expansion, NULL);
    }
    if (status == ATTUNE_OK) {
        snprintf(known->template, sizeof known->template, "%.*s", (int)length, record->candidate);
        snprintf(known->target, sizeof known->target, "%s", record->device.target);
        digest_hex(&expansion.template_digest, known->digest);
    }
    expansion_free(&expansion);
    return status == ATTUNE_OK && strcmp(known->digest, record->template_digest) == 0;
}

bool tuned_has(struct tuned *known, const struct listed_device *device, const struct problem *problem)
{
    struct record here = {0};
    char folder[128], specialisation[PROBLEM_TEXT_BYTES], shape[PROBLEM_TEXT_BYTES];
    record_set_device(&here, &device->facts);
    fingerprint_folder(&here.device, folder);
    if (problem_specialisation(problem, specialisation, NULL) != ATTUNE_OK ||
        problem_shape(problem, shape, NULL) != ATTUNE_OK) {
        return false;
    }
    const struct shelf *shelf = find_shelf(known, folder, specialisation);
    for (int i = 0; shelf != NULL && i < shelf->count; i++) {
        const struct record *record = &shelf->records[i];
        if (record->kind == RECORD_TUNED && record->complete && (record->tried > 1 || known->default_will_do) &&
            strcmp(record->shape, shape) == 0 && strcmp(record->device.target, here.device.target) == 0 &&
            strcmp(record->device.driver, here.device.driver) == 0 &&
            record->device.power_limit_watts == here.device.power_limit_watts &&
            store_object_has(known->store, &record->object) && is_of_todays_template(known, record, device, problem)) {
            return true;
        }
    }
    return false;
}
