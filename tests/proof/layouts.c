/* layouts.c - head sizes and layouts: sizes outside the usual list (A18, A19, A20), K and V apart from each other
 * (A25), expanded by strides of 0 (A26). The same values must give the same bits, whatever the layout. Guard zones and
 * the gaps between rows are the kit's. */
#include "kit.h"

#include "autotune/inputs.h"

/* draws that every type holds exactly; `data` points to the tensor */
static double drawn(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    uint64_t place = (((uint64_t) * (const int *)data * 1000003 + (uint64_t)b) * 1000003 + (uint64_t)s) * 1000003;
    return (double)(hash_mix((place + (uint64_t)h) * 1000003 + (uint64_t)c) >> 57) / 32 - 2;
}
static double one_a_batch(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)b;
    return drawn(data, 0, s, h, c);
}
static double one_a_head(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)h;
    return drawn(data, b, s, 0, c);
}
static double one_a_token(const void *data, int64_t b, int64_t s, int64_t h, int64_t c)
{
    (void)s;
    return drawn(data, b, 0, h, c);
}

static void fill_inputs(struct proof_call *call, proof_value keys_and_values)
{
    static const int numbers[] = {0, 1, 2};
    proof_fill(call, PROOF_Q, drawn, &numbers[0]);
    proof_fill(call, PROOF_K, keys_and_values, &numbers[1]);
    proof_fill(call, PROOF_V, keys_and_values, &numbers[2]);
}

/* The call and a second of the same specialisation against the reference, on at most `most` candidates. */
static void run_both(struct proof *proof, struct proof_call *call, struct proof_call *other, int most)
{
    struct proof_answers answers = proof_answers(call), others = proof_answers(other);
    for (struct proof_run run = proof_start(proof, call); proof_next(&run);) {
        proof_check_answers(call, &answers);
        proof_also(&run, other);
        proof_check_answers(other, &others);
        if (run.taken >= most) {
            break;
        }
    }
    proof_answers_free(&answers);
    proof_answers_free(&others);
    proof_call_free(call);
    proof_call_free(other);
}

/* ------------------------------------------------------------------------------------------------ head sizes */

/* only the last element of q and k counts: a kernel that reads a power of two of them sees nothing */
static void keep_last_column(struct proof_call *call)
{
    static const double zero = 0;
    const struct attention *a = &call->a;
    const int64_t last = a->head_dim_qk - 1;
    proof_fill(call, PROOF_Q, proof_constant, &zero);
    proof_fill(call, PROOF_K, proof_constant, &zero);
    for (int64_t h = 0; h < a->heads; h++) {
        for (int64_t i = 0; i < a->seqlen_q; i++) {
            proof_set(call, PROOF_Q, 0, i, h, last, (double)(i % 5) - 2);
        }
        for (int64_t j = 0; j < a->seqlen_k && h < a->kv_heads; j++) {
            proof_set(call, PROOF_K, 0, j, h, last, (double)(j % 7) / 2);
        }
    }
}

static void run_head_size(struct proof *proof, int qk, int v, bool causal, int most)
{
    char text[256], label[64];
    struct proof_call call, last;
    snprintf(label, sizeof label, "head_dim_qk=%d head_dim_v=%d causal=%d", qk, v, causal);
    snprintf(text, sizeof text,
             "dtype=f16 heads=2 kv_heads=1 seqlen_q=33 seqlen_k=65 head_dim_qk=%d head_dim_v=%d causal=%d lse=1", qk, v,
             causal);
    proof_call_make(&call, label, text);
    proof_call_make(&last, label, text);
    fill_inputs(&call, drawn);
    fill_inputs(&last, drawn);
    keep_last_column(&last);
    run_both(proof, &call, &last, most);
}

/* A18. The default scale is of the true size: the reference's is. */
static void head_sizes_outside_the_usual_list_are_right(void **state)
{
    static const int sizes[] = {8, 40, 72, 96, 192, 256, 16, 32, 48, 64, 80, 88, 112, 128, 160, 224};
    const size_t count = (size_t)test_size(6, sizeof sizes / sizeof sizes[0]);
    for (size_t i = 0; i < count; i++) {
        run_head_size(*state, sizes[i], sizes[i], i % 2 == 0, test_size(i == 1 ? 100 : 2, 100));
        if (test_size(0, 1)) {
            run_head_size(*state, sizes[i], sizes[i], i % 2 != 0, 100);
        }
    }
}

/* A18, A20: larger ones are refused before anything is compiled */
static void head_sizes_beyond_256_are_refused_by_name(void **state)
{
    static const char *const texts[][2] = {{"head_dim=257", "head_dim_qk=257"},
                                           {"head_dim=512", "head_dim_qk=512"},
                                           {"head_dim=576", "head_dim_qk=576"},
                                           {"head_dim_qk=576 head_dim_v=512", "head_dim_qk=576"},
                                           {"head_dim_qk=64 head_dim_v=512", "head_dim_v=512"},
                                           {"head_dim=0", "head_dim_qk=0"}};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char text[128];
        snprintf(text, sizeof text, "dtype=f16 heads=2 seqlen_q=33 seqlen_k=65 %s", texts[i][0]);
        proof_refused(*state, text, texts[i][1]);
        proof_refused(*state, text, "1 to 256");
    }
}

static int64_t padded(int64_t head_dim)
{
    return (head_dim + 7) / 8 * 8;
}

/* each row in a place of a multiple of 8 elements */
static void pad_rows(struct proof_call *call)
{
    struct attention *a = &call->a;
    const struct {
        struct attention_tensor *tensor;
        int64_t pitch, heads, length;
    } all[] = {{&a->q, padded(a->head_dim_qk), a->heads, a->seqlen_q},
               {&a->k, padded(a->head_dim_qk), a->kv_heads, a->seqlen_k},
               {&a->v, padded(a->head_dim_v), a->kv_heads, a->seqlen_k},
               {&a->o, padded(a->head_dim_v), a->heads, a->seqlen_q}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        all[i].tensor->head_stride = all[i].pitch;
        all[i].tensor->seq_stride = all[i].pitch * all[i].heads;
        all[i].tensor->batch_stride = all[i].pitch * all[i].heads * all[i].length;
    }
    proof_call_layout(call);
}

/* A19: rows back to back, whose starts are aligned to an element and no more, and rows padded to 8 elements: both
 * right, and bit by bit the same */
static void head_sizes_that_are_no_multiple_of_8_are_right_compact_and_padded(void **state)
{
    static const int sizes[] = {33, 1, 100, 3, 46, 65};
    static const char *const dtypes[] = {"f16", "f32", "bf16"};
    const size_t count = (size_t)test_size(3, sizeof sizes / sizeof sizes[0]);
    for (size_t i = 0; i < count; i++) {
        char text[256], label[64];
        struct proof_call compact, pad;
        snprintf(label, sizeof label, "head_dim=%d %s", sizes[i], dtypes[i % 3]);
        snprintf(text, sizeof text, "dtype=%s heads=2 seqlen_q=33 seqlen_k=65 head_dim=%d lse=1 causal=%d",
                 dtypes[i % 3], sizes[i], (int)i % 2);
        proof_call_make(&compact, label, text);
        proof_call_make(&pad, label, text);
        pad_rows(&pad);
        fill_inputs(&compact, drawn);
        fill_inputs(&pad, drawn);
        struct proof_answers answers = proof_answers(&compact);
        for (struct proof_run run = proof_start(*state, &compact); proof_next(&run);) {
            proof_check_answers(&compact, &answers);
            struct proof_bits bits = proof_bits(&compact);
            proof_also(&run, &pad);
            proof_same_bits(&pad, &bits, "padded rows");
            proof_bits_free(&bits);
            if (run.taken >= test_size(i == 0 ? 100 : 3, 100)) {
                break;
            }
        }
        proof_answers_free(&answers);
        proof_call_free(&compact);
        proof_call_free(&pad);
    }
}

/* A20: three heads, a gap of 8 elements after each head's row of o, which must stay unwritten */
static void head_sizes_of_keys_and_values_may_differ(void **state)
{
    static const int sizes[][2] = {{192, 128}, {40, 8}, {64, 128}, {128, 64}, {8, 40}, {33, 100}};
    const size_t count = (size_t)test_size(3, sizeof sizes / sizeof sizes[0]);
    for (size_t i = 0; i < count; i++) {
        char text[256], label[64];
        struct proof_call call, last;
        snprintf(label, sizeof label, "head_dim_qk=%d head_dim_v=%d", sizes[i][0], sizes[i][1]);
        snprintf(text, sizeof text, "dtype=f16 heads=3 seqlen_q=33 seqlen_k=65 head_dim_qk=%d head_dim_v=%d lse=1",
                 sizes[i][0], sizes[i][1]);
        struct proof_call *const both[] = {&call, &last};
        for (int n = 0; n < 2; n++) {
            struct attention *a = &both[n]->a;
            proof_call_make(both[n], label, text);
            a->o.head_stride = a->head_dim_v + 8;
            a->o.seq_stride = 3 * a->o.head_stride;
            a->o.batch_stride = 33 * a->o.seq_stride;
            proof_call_layout(both[n]);
            fill_inputs(both[n], drawn);
        }
        keep_last_column(&last);
        run_both(*state, &call, &last, test_size(i == 0 ? 100 : 3, 100));
    }
}

/* ------------------------------------------------------------------------------------------------ layouts */

/* the views' bits against those of the first call, on each candidate */
static void run_views(struct proof *proof, struct proof_call *plain, struct proof_call *views, int count)
{
    for (struct proof_run run = proof_start(proof, plain); proof_next(&run);) {
        struct proof_bits bits = proof_bits(plain);
        for (int i = 0; i < count; i++) {
            proof_also(&run, &views[i]);
            proof_same_bits(&views[i], &bits, "against contiguous tensors");
        }
        proof_bits_free(&bits);
    }
    proof_call_free(plain);
    for (int i = 0; i < count; i++) {
        proof_call_free(&views[i]);
    }
}

#define LAYOUT                                                                                                         \
    "dtype=f16 batch=2 heads=4 kv_heads=2 seqlen_q=37 seqlen_k=69 head_dim_qk=40 head_dim_v=40 causal=1 lse=1"

static void every_second_token(struct attention_tensor *tensor)
{
    tensor->seq_stride *= 2;
    tensor->batch_stride *= 2;
}

/* q, k or v as its slice of rows that hold all three: q's heads, then k's, then v's */
static void slice_of_fused(struct proof_call *call)
{
    struct attention *a = &call->a;
    const int64_t d = a->head_dim_qk, row = (a->heads + 2 * a->kv_heads) * d;
    struct attention_tensor *const tensors[] = {&a->q, &a->k, &a->v};
    const int64_t lengths[] = {a->seqlen_q, a->seqlen_k, a->seqlen_k};
    for (int i = 0; i < 3; i++) {
        tensors[i]->seq_stride = row;
        tensors[i]->batch_stride = lengths[i] * row;
        tensors[i]->head_stride = d;
    }
    call->offsets[PROOF_K] = a->heads * d;
    call->offsets[PROOF_V] = (a->heads + a->kv_heads) * d;
}

/* [batch, head, seq, dim], and batch innermost but for the row */
static void head_major(struct attention_tensor *tensor, int64_t length, int64_t heads, int64_t dim)
{
    tensor->seq_stride = dim;
    tensor->head_stride = length * dim;
    tensor->batch_stride = heads * length * dim;
}
static void batch_innermost(struct attention_tensor *tensor, int64_t batch, int64_t heads, int64_t dim)
{
    tensor->batch_stride = dim;
    tensor->head_stride = batch * dim;
    tensor->seq_stride = heads * batch * dim;
}

/* A25: what lies between the rows is NaN */
static void keys_and_values_have_strides_of_their_own(void **state)
{
    static const char *const labels[] = {"every second token of k", "every second token of v", "fused q, k, v",
                                         "k head-major, v batch innermost", "all orders mixed"};
    enum { VIEWS = sizeof labels / sizeof labels[0] };
    struct proof_call plain, views[VIEWS];
    proof_call_make(&plain, "contiguous", LAYOUT);
    fill_inputs(&plain, drawn);
    for (int i = 0; i < VIEWS; i++) {
        proof_call_make(&views[i], labels[i], LAYOUT);
        struct attention *a = &views[i].a;
        switch (i) {
        case 0:
            every_second_token(&a->k);
            break;
        case 1:
            every_second_token(&a->v);
            break;
        case 2:
            slice_of_fused(&views[i]);
            break;
        case 3:
            head_major(&a->k, a->seqlen_k, a->kv_heads, a->head_dim_qk);
            batch_innermost(&a->v, a->batch, a->kv_heads, a->head_dim_v);
            break;
        default:
            head_major(&a->q, a->seqlen_q, a->heads, a->head_dim_qk);
            batch_innermost(&a->k, a->batch, a->kv_heads, a->head_dim_qk);
            every_second_token(&a->v);
            batch_innermost(&a->o, a->batch, a->heads, a->head_dim_v);
        }
        proof_call_layout(&views[i]);
        fill_inputs(&views[i], drawn);
    }
    run_views(*state, &plain, views, VIEWS);
}

/* A26: the first call holds whole copies, the second one row for the whole axis */
static void expanded_keys_and_values_give_the_bits_of_copies(void **state)
{
    static const char *const labels[] = {"k and v expanded along batch", "along heads", "along tokens"};
    static const proof_value values[] = {one_a_batch, one_a_head, one_a_token};
    for (int axis = 0; axis < 3; axis++) {
        struct proof_call copies, expanded;
        proof_call_make(&copies, labels[axis], LAYOUT);
        proof_call_make(&expanded, labels[axis], LAYOUT);
        struct attention_tensor *const tensors[] = {&expanded.a.k, &expanded.a.v};
        for (int i = 0; i < 2; i++) {
            int64_t *const strides[] = {&tensors[i]->batch_stride, &tensors[i]->head_stride, &tensors[i]->seq_stride};
            *strides[axis] = 0;
        }
        proof_call_layout(&expanded);
        fill_inputs(&copies, values[axis]);
        fill_inputs(&expanded, values[axis]);
        run_views(*state, &copies, &expanded, 1);
    }
}

/* A26: one key and one value for a long sequence; all weights are alike, so that o is the value. Values of few bits:
 * their sums stay exact. */
static void one_key_for_a_long_sequence_gives_its_value(void **state)
{
    struct proof_call call;
    const int64_t length = test_size(8192 + 3, 65536 * 4 + 3);
    char text[256];
    snprintf(text, sizeof text, "dtype=f16 heads=2 seqlen_q=3 seqlen_k=%lld head_dim=32 lse=1", (long long)length);
    proof_call_make(&call, "k and v of stride 0", text);
    call.a.k.seq_stride = call.a.v.seq_stride = 0;
    proof_call_layout(&call);
    fill_inputs(&call, one_a_token);
    for (struct proof_run run = proof_start(*state, &call); proof_next(&run);) {
        for (int64_t h = 0; h < 2; h++) {
            for (int64_t i = 0; i < 3; i++) {
                for (int64_t c = 0; c < 32; c++) {
                    double wanted = proof_get(&call, PROOF_V, 0, 0, h, c);
                    proof_near(&call, "o", 0, h, i, c, proof_o(&call, 0, h, i, c), wanted, 0);
                }
            }
        }
        if (run.taken >= test_size(4, 1000)) {
            break;
        }
    }
    proof_call_free(&call);
}

/* A26, A13: what is not built yet */
static void bias_and_pages_are_refused_by_name(void **state)
{
    proof_refused(*state, LAYOUT " bias=f16", "bias");
    proof_refused(*state, LAYOUT " paged=1 page_size=16", "paged");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(head_sizes_outside_the_usual_list_are_right),
        cmocka_unit_test(head_sizes_beyond_256_are_refused_by_name),
        cmocka_unit_test(head_sizes_that_are_no_multiple_of_8_are_right_compact_and_padded),
        cmocka_unit_test(head_sizes_of_keys_and_values_may_differ),
        cmocka_unit_test(keys_and_values_have_strides_of_their_own),
        cmocka_unit_test(expanded_keys_and_values_give_the_bits_of_copies),
        cmocka_unit_test(one_key_for_a_long_sequence_gives_its_value),
        cmocka_unit_test(bias_and_pages_are_refused_by_name),
    };
    return cmocka_run_group_tests_name("proof_layouts", tests, proof_set_up, proof_tear_down);
}
