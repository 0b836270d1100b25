/* Candidate texts of attention.forward, with a problem and a target and without: a candidate that is read is written as
 * one text, and checking it gives a verdict. */
#include "generator/generator.h"
#include "tests/fuzz/fuzz.h"

struct setting {
    struct generator *generator;
    struct problem problem;
    struct target target;
};

static const struct setting *setting(void)
{
    static struct setting kept; /* made once: loading families is no part of reading a candidate */
    struct error error = {.message = ""};
    const struct generator_options options = {.template_path = ""};
    if (kept.generator == NULL) {
        HOLDS(generator_create(&options, &kept.generator, &error) == ATTUNE_OK &&
                  problem_parse(schema_attention_forward(), "dtype=f16 heads=4 seqlen_q=64 head_dim=64", &kept.problem,
                                &error) == ATTUNE_OK &&
                  target_parse("gfx906", &kept.target, &error) == ATTUNE_OK,
              "%s", error.message);
    }
    return &kept;
}

static void read_candidate(const char *text, bool alone)
{
    const struct setting *with = setting();
    struct candidate candidate, second;
    struct error error = {.message = ""};
    char name[CANDIDATE_TEXT_BYTES], again[CANDIDATE_TEXT_BYTES], id[CANDIDATE_ID_BYTES];
    attune_status status = candidate_parse(with->generator, text, alone ? NULL : &with->problem,
                                           alone ? NULL : &with->target, &candidate, &error);
    fuzz_check_error(status, &error);
    if (status != ATTUNE_OK) {
        return;
    }
    candidate_format(&candidate, name);
    candidate_id(&candidate, id);
    HOLDS(strlen(id) == CANDIDATE_ID_BYTES - 1, "id '%s'", id);
    HOLDS(candidate_parse(with->generator, name, NULL, NULL, &second, &error) == ATTUNE_OK, "'%s' is not read back: %s",
          name, error.message);
    candidate_format(&second, again);
    HOLDS(strcmp(name, again) == 0, "'%s' becomes '%s'", name, again);
    if (!alone) {
        status = candidate_check(with->generator, &candidate, &with->problem, &with->target, &error);
        fuzz_check_error(status, &error);
        HOLDS(status == ATTUNE_OK || status == ATTUNE_UNSUPPORTED, "status %d: %s", (int)status, error.message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    read_candidate(text, false);
    read_candidate(text, true);
    free(text);
    return 0;
}
