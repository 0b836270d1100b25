/* cover_names.c - cover_names PROBLEM TARGET COUNT SEED: names of candidates, one a line: the default first, then of a
 * cover. For determinism.sh, which hands them to the installed program. */
#include "generator/generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static attune_status print_names(struct generator *generator, char **argv, struct error *error)
{
    struct problem problem;
    struct target target;
    struct candidate standard;
    struct candidate_list cover;
    char family[FAMILY_NAME_BYTES], first[CANDIDATE_TEXT_BYTES], name[CANDIDATE_TEXT_BYTES];
    attune_status status = problem_family(argv[1], family, error);
    if (status == ATTUNE_OK) {
        status = problem_parse(generator_schema(generator, family), argv[1], &problem, error);
    }
    if (status == ATTUNE_OK) {
        status = target_parse(argv[2], &target, error);
    }
    if (status == ATTUNE_OK) {
        status = candidate_default(generator, &problem, &target, &standard, error);
    }
    if (status == ATTUNE_OK) {
        status =
            candidate_cover(generator, &problem, &target, atoi(argv[3]), strtoull(argv[4], NULL, 10), &cover, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    candidate_format(&standard, first);
    printf("%s\n", first);
    for (int i = 0; i < cover.count; i++) {
        candidate_format(&cover.items[i], name);
        if (strcmp(name, first) != 0) {
            printf("%s\n", name);
        }
    }
    candidate_list_free(&cover);
    return ATTUNE_OK;
}

int main(int argc, char **argv)
{
    struct generator *generator = NULL;
    struct error error = {0};
    attune_status status = argc == 5 ? generator_create(NULL, &generator, &error)
                                     : error_set(&error, ATTUNE_INVALID, "PROBLEM TARGET COUNT SEED");
    if (status == ATTUNE_OK) {
        status = print_names(generator, argv, &error);
        generator_destroy(generator);
    }
    if (status != ATTUNE_OK) {
        fprintf(stderr, "cover_names: %s\n", error.message);
    }
    return status == ATTUNE_OK ? 0 : 1;
}
