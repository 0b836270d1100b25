/* masks.c - which keys a query sees, what hidden keys may hold, and that no option is accepted and ignored. */
#include "kit.h"

#include "autotune/inputs.h"

/* data: a double, the largest size */
static double noise(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    uint64_t bits = hash_mix(0xabcd + (uint64_t)(((b * 64 + h) * 4096 + s) * 256 + c));
    return *(const double *)data * ((double)(bits >> 40) / 8388608.0 - 1.0);
}

static void fill_noise(struct proof_call *call)
{
    static const double two = 2.0;
    proof_fill(call, PROOF_Q, noise, &two);
    proof_fill(call, PROOF_K, noise, &two);
    proof_fill(call, PROOF_V, noise, &two);
}

/* ------------------------------------------------------------------------------------------------ C04 */

static double diagonal(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h;
    return s == c ? 1.0 : 0.0;
}

/* with equal scores and V the identity, column j of o is 1/n where key j is seen and 0 where it is not */
static void check_mask(struct proof *proof, const char *causal, int seqlen_q, int seqlen_k)
{
    static const double zero = 0.0;
    struct proof_call call;
    char text[192];
    snprintf(text, sizeof text,
             "dtype=f16 heads=2 kv_heads=1 seqlen_q=%d seqlen_k=%d head_dim_qk=16 head_dim_v=128 causal=%s lse=1",
             seqlen_q, seqlen_k, causal);
    proof_call_make(&call, "mask", text);
    proof_fill(&call, PROOF_Q, proof_constant, &zero);
    proof_fill(&call, PROOF_K, proof_constant, &zero);
    proof_fill(&call, PROOF_V, diagonal, NULL);
    bool bottom_right = strcmp(causal, "bottom_right") == 0, none = strcmp(causal, "none") == 0;
    for (struct proof_run run = proof_start(proof, &call); proof_next(&run);) {
        for (int64_t row = 0; row < 2 * seqlen_q; row++) {
            int64_t h = row / seqlen_q, i = row % seqlen_q, last = i + (bottom_right ? seqlen_k - seqlen_q : 0), seen;
            last = none || last > seqlen_k - 1 ? seqlen_k - 1 : last;
            seen = last < 0 ? 0 : last + 1;
            for (int64_t j = 0; j < 128; j++) {
                double wanted = j < seen ? 1.0 / (double)seen : 0.0, value = proof_o(&call, 0, h, i, j);
                proof_near(&call, "o", 0, h, i, j, value, wanted, wanted * ldexp(1.0, -10));
                if ((value != 0.0) != (j < seen)) {
                    proof_fail(&call, "head %lld: query %lld %s key %lld", (long long)h, (long long)i,
                               value != 0.0 ? "sees" : "does not see", (long long)j);
                }
            }
            proof_near(&call, "lse", 0, h, i, 0, proof_lse(&call, 0, h, i),
                       seen == 0 ? -(double)INFINITY : log((double)seen), 1e-6);
        }
    }
    proof_call_free(&call);
}

/* C04 */
static void causal_rules_are_the_documented_ones(void **state)
{
    static const int sizes[][2] = {{3, 5}, {5, 3}, {1, 100}, {4, 100}, {130, 70}, {70, 128}, {64, 64}, {33, 1}};
    static const char *const rules[] = {"bottom_right", "top_left", "none"};
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < test_size(r == 2 ? 3 : 7, 8); i++) {
            check_mask(*state, rules[r], sizes[i][0], sizes[i][1]);
        }
    }
}

/* C04: for one query bottom_right hides nothing: not a bit may differ from no mask */
static void a_single_causal_query_sees_all_keys(void **state)
{
    static const int lengths[] = {100, 1, 257};
    for (int i = 0; i < 3; i++) {
        struct proof_call causal, plain;
        char text[160];
        snprintf(text, sizeof text,
                 "dtype=f16 batch=2 heads=2 kv_heads=1 seqlen_q=1 seqlen_k=%d head_dim=64 lse=1 causal=1", lengths[i]);
        proof_call_make(&causal, "one query", text);
        *strstr(text, " causal=1") = '\0';
        proof_call_make(&plain, "one query", text);
        fill_noise(&causal);
        fill_noise(&plain);
        for (struct proof_run run = proof_start(*state, &causal); proof_next(&run);) {
            struct proof_bits bits = proof_bits(&causal);
            proof_also(&run, &plain);
            proof_same_bits(&plain, &bits, "not causal");
            proof_bits_free(&bits);
        }
        proof_call_free(&causal);
        proof_call_free(&plain);
    }
}

/* C04: both entry points for problems mean the same rule */
static void the_struct_and_the_text_mean_one_rule(void **state)
{
    static const struct {
        attune_causal causal;
        const char *text;
    } rules[] = {{ATTUNE_CAUSAL_NONE, "causal=none"},
                 {ATTUNE_CAUSAL_TOP_LEFT, "causal=top_left"},
                 {ATTUNE_CAUSAL_BOTTOM_RIGHT, "causal=bottom_right"},
                 {ATTUNE_CAUSAL_BOTTOM_RIGHT, "causal=1"},
                 {ATTUNE_CAUSAL_NONE, "causal=0"}};
    attune_context *context = NULL;
    (void)state;
    assert_int_equal(attune_context_create(NULL, &context), ATTUNE_OK);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        const attune_attention attention = {.size = sizeof attention,
                                            .batch = 1,
                                            .heads = 2,
                                            .seqlen_q = 3,
                                            .seqlen_k = 5,
                                            .head_dim_qk = 64,
                                            .causal = rules[i].causal};
        attune_problem *made = NULL, *parsed = NULL;
        char text[192], first[PROBLEM_TEXT_BYTES], second[PROBLEM_TEXT_BYTES];
        snprintf(text, sizeof text, "attention.forward dtype=f16 heads=2 seqlen_q=3 seqlen_k=5 head_dim=64 %s",
                 rules[i].text);
        assert_int_equal(attune_problem_attention(context, &attention, &made), ATTUNE_OK);
        assert_int_equal(attune_problem_parse(context, text, &parsed), ATTUNE_OK);
        attune_problem_text(made, first, sizeof first);
        attune_problem_text(parsed, second, sizeof second);
        assert_string_equal(first, second);
        attune_problem_destroy(made);
        attune_problem_destroy(parsed);
    }
    attune_context_destroy(context);
}

/* C04: whichever function launches, the same keys are hidden */
static void every_entry_point_hides_the_same_keys(void **state)
{
    static const int sizes[][2] = {{3, 5}, {5, 3}, {1, 100}};
    static const char *const rules[] = {"bottom_right", "top_left", "none"};
    for (int r = 0; r < 3; r++) {
        for (int i = 0; i < 3; i++) {
            struct proof_call call;
            char text[192];
            snprintf(text, sizeof text,
                     "dtype=f16 heads=2 kv_heads=1 seqlen_q=%d seqlen_k=%d head_dim=64 causal=%s lse=1", sizes[i][0],
                     sizes[i][1], rules[r]);
            proof_call_make(&call, "entry points", text);
            fill_noise(&call);
            struct proof_answers answers = proof_answers(&call);
            for (enum proof_entry entry = 0; entry < PROOF_ENTRIES; entry++) {
                if (proof_enter(*state, entry, &call)) {
                    proof_check_answers(&call, &answers);
                }
            }
            proof_answers_free(&answers);
            proof_call_free(&call);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ A10 */

enum { HIDDEN_KEY = 80, HIDDEN_LENGTH = 96 };

static void make_hidden(struct proof_call *call, const char *dtype)
{
    char text[160];
    snprintf(text, sizeof text, "dtype=%s batch=2 heads=2 seqlen_q=%d seqlen_k=%d head_dim=64 causal=1 lse=1", dtype,
             HIDDEN_LENGTH, HIDDEN_LENGTH);
    proof_call_make(call, "hidden key", text);
    fill_noise(call);
}

/* is the row of the run that holds NaN or infinity the same as the row of the finite run? */
static bool same_row(const struct proof_bits *a, const struct proof_bits *b, int64_t sequence, int64_t h, int64_t i)
{
    size_t row = (size_t)((sequence * a->heads + h) * a->seqlen_q + i), at = row * a->row_bytes;
    size_t lse = (size_t)(a->batch * a->heads * a->seqlen_q) * a->row_bytes + row * sizeof(float);
    return memcmp(a->rows + at, b->rows + at, a->row_bytes) == 0 &&
           memcmp(a->rows + lse, b->rows + lse, sizeof(float)) == 0;
}

/* first query of the blocks that visit the hidden key's tile of keys */
static int64_t first_query_of_tile(const struct proof_run *run)
{
    int64_t block_q = atoi(proof_parameter(run, "block_q"));
    int64_t tile = atoi(proof_parameter(run, "block_k")) * proof_splits(run);
    return HIDDEN_KEY / tile * tile / block_q * block_q;
}

/* sequence 1, head 1 holds the value in key HIDDEN_KEY of the tensor */
static void check_hidden(const struct proof_run *run, const struct proof_call *call, enum proof_tensor tensor,
                         const struct proof_bits *finite)
{
    int64_t reached = tensor == PROOF_V ? first_query_of_tile(run) : HIDDEN_KEY;
    struct proof_bits bits = proof_bits(call);
    for (int64_t b = 0; b < 2; b++) {
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t i = 0; i < HIDDEN_LENGTH; i++) {
                bool touched = b == 1 && h == 1, seen = touched && i >= HIDDEN_KEY;
                bool same = same_row(&bits, finite, b, h, i);
                if (!seen && (!touched || i < reached) && !same) {
                    proof_fail(call, "batch %lld, head %lld, query %lld does not see the key, but its bits changed",
                               (long long)b, (long long)h, (long long)i);
                }
                /* V of the query's own tile: 0 times NaN may show, but a wrong number never */
                if (!seen && !same && !isnan(proof_o(call, b, h, i, 3))) {
                    proof_fail(call, "batch %lld, head %lld, query %lld does not see the key, but o changed to %g",
                               (long long)b, (long long)h, (long long)i, proof_o(call, b, h, i, 3));
                }
                if (seen && isfinite(proof_o(call, b, h, i, 3)) && tensor == PROOF_V) {
                    proof_fail(call, "query %lld sees the key, but o is %g", (long long)i, proof_o(call, b, h, i, 3));
                }
            }
        }
    }
    proof_bits_free(&bits);
}

/* A10: in K it stays hidden; in V it may turn rows of its tile to NaN and changes no number (docs/numerics.md) */
static void what_hidden_keys_hold_changes_no_number(void **state)
{
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    static const char *const dtypes[] = {"f16", "bf16", "f32"};
    for (int type = 0; type < test_size(2, 3); type++) {
        struct proof_call finite, other;
        make_hidden(&finite, dtypes[type]);
        make_hidden(&other, dtypes[type]);
        for (struct proof_run run = proof_start(*state, &finite); proof_next(&run);) {
            struct proof_bits bits = proof_bits(&finite);
            for (int n = 0; n < 2 * test_size(2, 3); n++) {
                enum proof_tensor tensor = n % 2 == 0 ? PROOF_K : PROOF_V;
                double before = proof_get(&other, tensor, 1, HIDDEN_KEY, 1, 3);
                proof_set(&other, tensor, 1, HIDDEN_KEY, 1, 3, values[n / 2]);
                proof_also(&run, &other);
                check_hidden(&run, &other, tensor, &bits);
                proof_set(&other, tensor, 1, HIDDEN_KEY, 1, 3, before);
            }
            proof_bits_free(&bits);
        }
        proof_call_free(&finite);
        proof_call_free(&other);
    }
}

/* A10: NaN in a key that is seen shows, and only where it is seen */
static void nan_in_a_seen_key_is_not_swallowed(void **state)
{
    struct proof_call call;
    make_hidden(&call, "f16");
    proof_set(&call, PROOF_K, 0, HIDDEN_KEY, 0, 5, (double)NAN);
    for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
        for (int64_t i = 0; i < HIDDEN_LENGTH; i++) {
            bool nan = isnan(proof_o(&call, 0, 0, i, 7));
            if (nan != (i >= HIDDEN_KEY) || isnan(proof_lse(&call, 0, 0, i)) != nan) {
                proof_fail(&call, "query %lld: o %s NaN", (long long)i, nan ? "is" : "is not");
            }
        }
    }
    proof_call_free(&call);
}

/* ------------------------------------------------------------------------------------------------ C08 */

/* What each field of the problem does. A field that is not here fails the test: whoever adds one says what it must do.
 */
static const struct {
    const char *field;
    enum { SIZE, TYPE, CHANGES, SILENT, WIDE, REFUSED } effect; /* WIDE: other candidates */
    const char *on; /* CHANGES, SILENT: text that turns it on; REFUSED: text that must be refused by the field's name */
} options[] = {
    {"q_dtype", TYPE, NULL},
    {"k_dtype", TYPE, NULL},
    {"v_dtype", TYPE, NULL},
    {"o_dtype", TYPE, NULL},
    {"batch", SIZE, NULL},
    {"heads", SIZE, NULL},
    {"kv_heads", SIZE, NULL},
    {"seqlen_q", SIZE, NULL},
    {"seqlen_k", SIZE, NULL},
    {"head_dim_qk", SIZE, NULL},
    {"head_dim_v", SIZE, NULL},
    {"causal", CHANGES, "causal=top_left"},
    {"scale", CHANGES, "scale=0.25"},
    {"dropout", CHANGES, "dropout=0.3"},
    {"lse", SILENT, "lse=1"},
    {"index", WIDE, "index=wide"},
    {"alignment", SILENT, "alignment=2"},
    {"batch_invariant", SILENT, "batch_invariant=1"},
    {"window_left", REFUSED, "window_left=16"},
    {"window_left", REFUSED, "window_left=0"},
    {"window_right", REFUSED, "window_right=16"},
    {"window_right", REFUSED, "window_right=0"},
    {"softcap", REFUSED, "softcap=30"},
    {"alibi", REFUSED, "alibi=1"},
    {"sinks", REFUSED, "sinks=1"},
    {"bias", REFUSED, "bias=f16"},
    {"bias", REFUSED, "bias=bf16"},
    {"bias", REFUSED, "bias=f32"},
    {"mask", REFUSED, "mask=bool"},
    {"varlen", REFUSED, "varlen=1"},
    {"paged", REFUSED, "paged=1 page_size=64"},
    {"page_size", REFUSED, "page_size=64"},
    {"strict_nan", REFUSED, "strict_nan=1"},
    {"q_dtype", REFUSED, "q_dtype=e4m3"},
    {"k_dtype", REFUSED, "k_dtype=e4m3"},
    {"k_dtype", REFUSED, "k_dtype=q8_0 alignment=2"},
    {"v_dtype", REFUSED, "v_dtype=e5m2"},
    {"o_dtype", REFUSED, "o_dtype=e4m3"},
};
enum { OPTIONS = sizeof options / sizeof options[0] };

/* many queries; few; one: each kind of block is met by each kind of candidate */
static const char *const paths[] = {"dtype=f16 heads=2 kv_heads=1 seqlen_q=70 seqlen_k=150 head_dim=64",
                                    "dtype=f16 heads=2 kv_heads=1 seqlen_q=4 seqlen_k=150 head_dim=64",
                                    "dtype=f16 heads=2 kv_heads=1 seqlen_q=1 seqlen_k=150 head_dim=64"};
enum { PATHS = sizeof paths / sizeof paths[0] };

static void every_field_of_a_problem_is_judged_here(void **state)
{
    const struct schema *schema = schema_attention_forward();
    (void)state;
    for (int f = 0; f < schema->field_count; f++) {
        int at = 0;
        while (at < OPTIONS && strcmp(options[at].field, schema->fields[f].name) != 0) {
            at++;
        }
        if (at == OPTIONS) {
            fail_msg("field %s: say in `options` what it must do", schema->fields[f].name);
        }
    }
}

static bool same_o(const struct proof_call *a, const struct proof_call *b)
{
    return memcmp(a->tensors[PROOF_O], b->tensors[PROOF_O], (size_t)a->a.o.span * dtype_size(a->a.o.dtype)) == 0;
}

/* the output changes, or stays to the bit, when the option is turned off */
static void check_toggle(struct proof *proof, const char *path, const char *text, int option)
{
    struct proof_call off, on;
    proof_call_make(&on, options[option].field, text);
    proof_call_make(&off, options[option].field, path);
    fill_noise(&on);
    fill_noise(&off);
    for (struct proof_run run = proof_start(proof, &on); proof_next(&run);) {
        proof_also(&run, &off);
        if (same_o(&on, &off) != (options[option].effect == SILENT)) {
            proof_fail(&on, "o %s", options[option].effect == SILENT ? "is another" : "is the same without it");
        }
    }
    proof_call_free(&on);
    proof_call_free(&off);
}

/* every candidate of index=wide has wide offsets and is right */
static void check_wide(struct proof *proof, const char *text)
{
    struct proof_call call;
    proof_call_make(&call, "index", text);
    fill_noise(&call);
    struct proof_answers answers = proof_answers(&call);
    for (struct proof_run run = proof_start(proof, &call); proof_next(&run);) {
        proof_check_answers(&call, &answers);
        if (strcmp(proof_parameter(&run, "index"), "wide") != 0) {
            proof_fail(&call, "narrow offsets");
        }
    }
    proof_answers_free(&answers);
    proof_call_free(&call);
}

/* C08 */
static void options_change_the_output_or_are_refused(void **state)
{
    for (int o = 0; o < OPTIONS; o++) {
        for (int p = 0; p < PATHS; p++) {
            char text[224];
            snprintf(text, sizeof text, "%s %s", paths[p], options[o].on != NULL ? options[o].on : "");
            if (options[o].effect == REFUSED) {
                proof_refused(*state, text, options[o].field);
            } else if (options[o].effect == WIDE) {
                check_wide(*state, text);
            } else if (options[o].effect == CHANGES || options[o].effect == SILENT) {
                check_toggle(*state, paths[p], text, o);
            }
        }
    }
}

/* C08: the two causal rules, on every path where they differ */
static void causal_rules_differ_on_every_path(void **state)
{
    for (int p = 0; p < PATHS; p++) {
        struct proof_call rules[2];
        for (int r = 0; r < 2; r++) {
            char text[192];
            snprintf(text, sizeof text, "%s causal=%s", paths[p], r == 0 ? "top_left" : "bottom_right");
            proof_call_make(&rules[r], "causal", text);
            fill_noise(&rules[r]);
        }
        for (struct proof_run run = proof_start(*state, &rules[0]); proof_next(&run);) {
            proof_also(&run, &rules[1]);
            if (same_o(&rules[0], &rules[1])) {
                proof_fail(&rules[1], "the same output as top_left");
            }
        }
        proof_call_free(&rules[0]);
        proof_call_free(&rules[1]);
    }
}

/* C08: the struct's fields for what is not built are refused like the text's */
static void the_struct_refuses_by_name(void **state)
{
    const attune_attention base = {.size = sizeof base, .heads = 2, .seqlen_q = 8, .head_dim_qk = 64, .batch = 1};
    attune_attention cases[5] = {base, base, base, base, base};
    static const char *const words[] = {"window_left", "window_right", "softcap", "strict_nan", "q_dtype"};
    cases[0].window_left = 16;
    cases[1].window_right = 1;
    cases[2].softcap = 30.0;
    cases[3].strict_nan = 1;
    cases[4].q_dtype = (attune_dtype)4;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        proof_struct_refused(*state, &cases[i], words[i]);
    }
}

/* ------------------------------------------------------------------------------------------------ A02, A07, A08 */

/* A02's mirror image, A07 and A08 need what is not built: refused by name in the shapes that users bring */
static void masks_biases_and_windows_are_refused_by_name(void **state)
{
    static const struct {
        const char *text, *word;
    } cases[] = {
        {"dtype=f16 heads=14 kv_heads=2 seqlen_q=88 seqlen_k=448 head_dim=64 window_left=100 lse=1", "window_left"},
        {"dtype=f16 batch=2 heads=4 seqlen_q=7 seqlen_k=7 head_dim=128 causal=1 mask=bool lse=1", "mask"},
        {"dtype=f16 batch=2 heads=4 seqlen_q=7 seqlen_k=7 head_dim=128 mask=1", "mask"},
        {"dtype=f16 batch=2 heads=4 seqlen_q=7 seqlen_k=7 head_dim=128 causal=1 bias=f16", "bias"},
        {"dtype=bf16 batch=2 heads=4 seqlen_q=7 seqlen_k=7 head_dim=128 bias=bf16 lse=1", "bias"},
        {"dtype=f32 batch=2 heads=4 seqlen_q=7 seqlen_k=7 head_dim=128 bias=f32", "bias"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        proof_refused(*state, cases[i].text, cases[i].word);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causal_rules_are_the_documented_ones),
        cmocka_unit_test(a_single_causal_query_sees_all_keys),
        cmocka_unit_test(the_struct_and_the_text_mean_one_rule),
        cmocka_unit_test(every_entry_point_hides_the_same_keys),
        cmocka_unit_test(what_hidden_keys_hold_changes_no_number),
        cmocka_unit_test(nan_in_a_seen_key_is_not_swallowed),
        cmocka_unit_test(every_field_of_a_problem_is_judged_here),
        cmocka_unit_test(options_change_the_output_or_are_refused),
        cmocka_unit_test(causal_rules_differ_on_every_path),
        cmocka_unit_test(the_struct_refuses_by_name),
        cmocka_unit_test(masks_biases_and_windows_are_refused_by_name),
    };
    proof_arguments(argc, argv);
    return cmocka_run_group_tests_name("proof_masks", tests, proof_set_up, proof_tear_down);
}
