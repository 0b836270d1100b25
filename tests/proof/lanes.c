/* lanes.c - which lane, wave, head and column a number reaches: one-hot sweeps over every key position and every
 * element of a row, for every block size and layout, and the mapping of query heads to KV heads. All exact. */
#include "kit.h"

static const char *const dtypes[] = {"f16", "bf16", "f32"};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

/* candidates whose blocks hold at most four queries */
static bool for_single_queries(const struct proof_run *run)
{
    return atoi(proof_parameter(run, "block_q")) <= 4;
}

/* ------------------------------------------------------------------------------------------------ A39: keys */

enum { SWEEP_KEYS = 256, SEEN_BYTES = 4096 };

/* Row `row` of the sweep looks for this key; 7 and 256 have no common divisor, so 256 rows look for all of them. */
static int64_t wanted_key(int64_t row)
{
    return (row * 7 + 3) % SWEEP_KEYS;
}

/* Codes of +-1: the first sixteen elements are the bits of the key's number, twice. A code times itself is 16, times
 * any other at most 12. */
static double key_code(int64_t key, int64_t c)
{
    return c >= 16 ? 0.0 : (key >> c % 8 & 1) ? 1.0 : -1.0;
}
static double code_of_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h;
    return key_code(s, c);
}
static double code_of_wanted_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)h;
    return key_code(wanted_key(b * *(const int64_t *)data + s), c);
}
/* every key another row: bf16 holds whole numbers to 256 */
static double number_of_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h;
    return c % 2 == 0 ? (double)s : (double)(SWEEP_KEYS - s);
}

static void check_key_rows(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                int64_t key = wanted_key(b * a->seqlen_q + i);
                for (int64_t c = 0; c < a->head_dim_v; c++) {
                    proof_near(call, "o", b, h, i, c, proof_o(call, b, h, i, c), number_of_key(NULL, b, key, h, c),
                               0.0);
                }
            }
        }
    }
}

/* the other keys score at least 4 * 60 less: their weights are 0 in fp32 */
static void make_key_sweep(struct proof_call *call, const char *dtype, int64_t head_dim, int64_t batch,
                           int64_t seqlen_q)
{
    char text[160];
    snprintf(text, sizeof text, "dtype=%s batch=%lld heads=1 seqlen_q=%lld seqlen_k=%d head_dim=%lld scale=60", dtype,
             (long long)batch, (long long)seqlen_q, SWEEP_KEYS, (long long)head_dim);
    proof_call_make(call, "key sweep", text);
    proof_fill(call, PROOF_Q, code_of_wanted_key, &seqlen_q);
    proof_fill(call, PROOF_K, code_of_key, NULL);
    proof_fill(call, PROOF_V, number_of_key, NULL);
}

/* Single queries: a block for many holds 63 idle rows, so that in size ci it gets few sequences, and all of them only
 * in the sweep with 33 queries. `seen` collects what candidates there were. */
static void sweep_single_queries(struct proof *proof, const char *dtype, int64_t head_dim, char seen[SEEN_BYTES])
{
    struct proof_call few, all;
    make_key_sweep(&few, dtype, head_dim, test_size(5, SWEEP_KEYS), 1);
    make_key_sweep(&all, dtype, head_dim, SWEEP_KEYS, 1);
    for (struct proof_run run = proof_start(proof, &few); proof_next(&run);) {
        check_key_rows(&few);
        if (for_single_queries(&run) && test_size(1, 0)) {
            proof_also(&run, &all);
            check_key_rows(&all);
        }
        size_t used = strlen(seen);
        snprintf(seen + used, SEEN_BYTES - used, " %s%s", proof_parameter(&run, "threads"),
                 proof_splits(&run) > 1 ? " split" : "");
    }
    proof_call_free(&few);
    proof_call_free(&all);
}

static void sweep_queries(struct proof *proof, const char *dtype, int64_t head_dim, int64_t batch, int64_t seqlen_q)
{
    struct proof_call call;
    make_key_sweep(&call, dtype, head_dim, batch, seqlen_q);
    for (struct proof_run run = proof_start(proof, &call); proof_next(&run);) {
        check_key_rows(&call);
    }
    proof_call_free(&call);
}

/* A39, B26 */
static void each_key_position_is_found(void **state)
{
    for (int type = 0; type < DTYPES; type++) {
        char seen[SEEN_BYTES] = "";
        sweep_single_queries(*state, dtypes[type], 64, seen);
        sweep_queries(*state, dtypes[type], 64, test_size(8, SWEEP_KEYS), 33);
        /* every block size there is, and key splits, were among the candidates */
        static const char *const wanted[] = {" 64", " 128", " 256", " split"};
        for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
            if (strstr(seen, wanted[i]) == NULL) {
                fail_msg("%s: no candidate with%s in the sweep", dtypes[type], wanted[i]);
            }
        }
    }
    static const int64_t head_dims[] = {128, 40, 256, 72, 16};
    for (int i = 0; i < test_size(2, 5); i++) {
        sweep_queries(*state, "f16", head_dims[i], test_size(4, SWEEP_KEYS), 64);
    }
}

/* ------------------------------------------------------------------------------------------------ A39: elements */

struct elements {
    int64_t head_dim, keys, rows; /* rows: of a sequence */
};

static int64_t row_element(const struct elements *e, int64_t row)
{
    return (row * 5 + 2) % e->head_dim;
}
static int64_t hot_key(const struct elements *e, int64_t element)
{
    return (element * 37 + 11) % e->keys;
}
/* only one element of a query is not 0 */
static double one_element(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    const struct elements *e = data;
    (void)h;
    return row_element(e, b * e->rows + s) == c ? 16.0 : 0.0;
}
/* element c points to one key and away from all others */
static double element_of_hot_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)b, (void)h;
    return hot_key(data, c) == s ? 16.0 : -16.0;
}

static void make_element_sweep(struct proof_call *call, const struct elements *e, const char *dtype, int64_t batch)
{
    char text[160];
    snprintf(text, sizeof text, "dtype=%s batch=%lld heads=1 seqlen_q=%lld seqlen_k=%lld head_dim=%lld scale=1", dtype,
             (long long)batch, (long long)e->rows, (long long)e->keys, (long long)e->head_dim);
    proof_call_make(call, "element sweep", text);
    proof_fill(call, PROOF_Q, one_element, e);
    proof_fill(call, PROOF_K, element_of_hot_key, e);
    proof_fill(call, PROOF_V, number_of_key, NULL);
}

static void check_element_rows(const struct proof_call *call, const struct elements *e)
{
    for (int64_t row = 0; row < call->a.batch * e->rows; row++) {
        int64_t b = row / e->rows, i = row % e->rows, key = hot_key(e, row_element(e, row));
        for (int64_t c = 0; c < e->head_dim; c++) {
            proof_near(call, "o", b, 0, i, c, proof_o(call, b, 0, i, c), number_of_key(NULL, b, key, 0, c), 0.0);
        }
    }
}

/* 5 divides no head size here: head_dim rows one after the other have all elements */
static void sweep_elements(struct proof *proof, const char *dtype, int64_t head_dim)
{
    const struct elements many = {head_dim, 101, 33}, single = {head_dim, 101, 1};
    struct proof_call call, singles;
    make_element_sweep(&call, &many, dtype, (head_dim + 32) / 33);
    make_element_sweep(&singles, &single, dtype, head_dim);
    for (struct proof_run run = proof_start(proof, &call); proof_next(&run);) {
        check_element_rows(&call, &many);
        if (for_single_queries(&run) || test_size(0, 1)) {
            proof_also(&run, &singles);
            check_element_rows(&singles, &single);
        }
    }
    proof_call_free(&call);
    proof_call_free(&singles);
}

/* A39 */
static void each_element_carries_the_score(void **state)
{
    static const int64_t head_dims[] = {64, 72, 33, 128, 256};
    for (int type = 0; type < DTYPES; type++) {
        for (int i = 0; i < test_size(type == 0 ? 4 : 1, 5); i++) {
            sweep_elements(*state, dtypes[type], head_dims[i]);
        }
    }
}

static double distinct(int64_t c)
{
    return 1.0 + (double)(c % 97) / 64.0;
}
/* element s of query s alone */
static double own_element(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h;
    return c == s ? distinct(c) : 0.0;
}
static double signed_elements(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)s, (void)h;
    return c % 2 == 0 ? distinct(c + 31) : -distinct(c + 31);
}

/* A39: with one key, lse is the score: q[d] * k[d] for query d */
static void a_score_is_the_product_of_its_elements(void **state)
{
    static const int64_t head_dims[] = {64, 72, 256};
    for (int type = 0; type < DTYPES; type++) {
        for (int n = 0; n < test_size(type == 0 ? 3 : 1, 3); n++) {
            struct proof_call call;
            char text[160];
            snprintf(text, sizeof text, "dtype=%s heads=1 seqlen_q=%lld seqlen_k=1 head_dim=%lld scale=1 lse=1",
                     dtypes[type], (long long)head_dims[n], (long long)head_dims[n]);
            proof_call_make(&call, "single key", text);
            proof_fill(&call, PROOF_Q, own_element, NULL);
            proof_fill(&call, PROOF_K, signed_elements, NULL);
            proof_fill(&call, PROOF_V, number_of_key, NULL);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                for (int64_t d = 0; d < head_dims[n]; d++) {
                    double score = proof_get(&call, PROOF_Q, 0, d, 0, d) * proof_get(&call, PROOF_K, 0, 0, 0, d);
                    proof_near(&call, "lse", 0, 0, d, 0, proof_lse(&call, 0, 0, d), score, 4e-6);
                }
            }
            proof_call_free(&call);
        }
    }
}

/* ------------------------------------------------------------------------------------------------ A34 */

static double head_number(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)s;
    return (double)(h + 16 * b + (c == 1 ? 100 : 0));
}

static void check_heads(const struct proof_call *call)
{
    const struct attention *a = &call->a;
    int64_t ratio = a->heads / a->kv_heads;
    for (int64_t b = 0; b < a->batch; b++) {
        for (int64_t h = 0; h < a->heads; h++) {
            for (int64_t i = 0; i < a->seqlen_q; i++) {
                for (int64_t c = 0; c < a->head_dim_v; c++) {
                    proof_near(call, "o", b, h, i, c, proof_o(call, b, h, i, c), head_number(NULL, b, 0, h / ratio, c),
                               0.0);
                }
            }
        }
    }
}

static const struct {
    int heads, kv_heads;
} ratios[] = {{6, 2}, {7, 1}, {14, 2}, {40, 8}, {4, 4}};
enum { RATIOS = sizeof ratios / sizeof ratios[0] };

/* A34: equal weights, so that V's head shows exactly */
static void query_heads_read_the_v_of_their_group(void **state)
{
    static const double zero = 0.0;
    for (int n = 0; n < RATIOS; n++) {
        static const int lengths[][2] = {{1, 9}, {33, 9}};
        for (int l = 0; l < 2; l++) {
            struct proof_call call;
            char text[160];
            snprintf(text, sizeof text, "dtype=f16 batch=%d heads=%d kv_heads=%d seqlen_q=%d seqlen_k=%d head_dim=32",
                     ratios[n].heads < 40 ? 2 : 1, ratios[n].heads, ratios[n].kv_heads, lengths[l][0], lengths[l][1]);
            proof_call_make(&call, "v is its head", text);
            proof_fill(&call, PROOF_Q, proof_constant, &zero);
            proof_fill(&call, PROOF_K, proof_constant, &zero);
            proof_fill(&call, PROOF_V, head_number, NULL);
            for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
                check_heads(&call);
            }
            proof_call_free(&call);
        }
    }
}

/* key j of KV head h has its peak where j is h: what K's head is shows as V's row */
static double peak_at_own_key(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)c;
    return s == h ? 8.0 : -8.0;
}
static double key_number(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)data, (void)b, (void)h, (void)c;
    return (double)s;
}

/* A34 */
static void query_heads_read_the_k_of_their_group(void **state)
{
    static const double one = 1.0;
    for (int n = 0; n < RATIOS; n++) {
        struct proof_call call;
        char text[160];
        snprintf(text, sizeof text, "dtype=f16 batch=2 heads=%d kv_heads=%d seqlen_q=5 seqlen_k=9 head_dim=32 scale=1",
                 ratios[n].heads, ratios[n].kv_heads);
        proof_call_make(&call, "k is its head", text);
        proof_fill(&call, PROOF_Q, proof_constant, &one);
        proof_fill(&call, PROOF_K, peak_at_own_key, NULL);
        proof_fill(&call, PROOF_V, key_number, NULL);
        for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
            for (int64_t row = 0; row < 2 * call.a.heads * 5; row++) {
                int64_t b = row / (call.a.heads * 5), h = row / 5 % call.a.heads, i = row % 5;
                double wanted = (double)(h / (ratios[n].heads / ratios[n].kv_heads));
                proof_near(&call, "o", b, h, i, 3, proof_o(&call, b, h, i, 3), wanted, 0.0);
            }
        }
        proof_call_free(&call);
    }
}

/* A34 */
static void heads_that_do_not_divide_are_refused(void **state)
{
    static const struct {
        int heads, kv_heads;
    } pairs[] = {{33, 2}, {3, 2}, {2, 4}, {1, 2}, {40, 7}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        static const char *const lengths[] = {"seqlen_q=70", "seqlen_q=1 seqlen_k=70"};
        for (size_t l = 0; l < 2; l++) {
            char text[160];
            snprintf(text, sizeof text, "dtype=f16 heads=%d kv_heads=%d %s head_dim=64", pairs[i].heads,
                     pairs[i].kv_heads, lengths[l]);
            proof_refused(*state, text, "kv_heads");
        }
    }
}

/* A34: nor may a launch bring them to a plan that was made for others */
static void a_launch_with_another_head_ratio_is_refused(void **state)
{
    static const int pairs[][2] = {{33, 2}, {3, 2}, {2, 4}, {6, 6}, {7, 1}, {6, 1}, {6, 0}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const attune_attention_arguments arguments = {.size = sizeof arguments,
                                                      .batch = 1,
                                                      .heads = pairs[i][0],
                                                      .kv_heads = pairs[i][1],
                                                      .seqlen_q = 4,
                                                      .seqlen_k = 4,
                                                      .explicit_sizes = 1};
        proof_launch_refused(*state, "dtype=f16 heads=6 kv_heads=2 seqlen_q=4 head_dim=64", &arguments, "heads=");
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_position_is_found),
        cmocka_unit_test(each_element_carries_the_score),
        cmocka_unit_test(a_score_is_the_product_of_its_elements),
        cmocka_unit_test(query_heads_read_the_v_of_their_group),
        cmocka_unit_test(query_heads_read_the_k_of_their_group),
        cmocka_unit_test(heads_that_do_not_divide_are_refused),
        cmocka_unit_test(a_launch_with_another_head_ratio_is_refused),
    };
    proof_arguments(argc, argv);
    return cmocka_run_group_tests_name("proof_lanes", tests, proof_set_up, proof_tear_down);
}
