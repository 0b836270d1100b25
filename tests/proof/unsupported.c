/* unsupported.c - C01: what is not supported answers a status that names argument, value and what is allowed; who asks
 * first (params, explain) hears the same as who calls; nothing is compiled for it and nobody is ended. */
#include "base/files.h"
#include "generator/compiler.h"
#include "generator/generator.h"
#include "runtime/attune.h"
#include "tests/cli/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct generator *generator;
static attune_context *context;
static attune_device *device;

static int set_up(void **state)
{
    struct error error = {.message = ""};
    const attune_context_options options = {.size = sizeof options, .jit = ATTUNE_JIT_COMPILE};
    if (program_setup(state) != 0 || setenv("ATTUNE_CACHE", scratch("store"), 1) != 0 ||
        generator_create(&(struct generator_options){.template_path = ""}, &generator, &error) != ATTUNE_OK ||
        attune_context_create(&options, &context) != ATTUNE_OK || attune_jit_register(context) != ATTUNE_OK ||
        attune_device_open(context, "host", &device) != ATTUNE_OK) {
        print_error("%s\n", error.message);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    attune_context_destroy(context);
    generator_destroy(generator);
    return program_teardown(state);
}

/* argument and value, then the allowed values; `good` fields around them */
#define GOOD "batch=1 heads=4 kv_heads=2 seqlen_q=33 seqlen_k=65 "
static const struct {
    const char *text, *value, *allowed;
} unsupported[] = {
    {GOOD "dtype=f16 head_dim=257", "head_dim_qk=257", "1 to 256"},
    {GOOD "dtype=f16 head_dim=576", "head_dim_qk=576", "1 to 256"},
    {GOOD "q_dtype=f16 k_dtype=q8_0 v_dtype=q8_0 head_dim=576", "head_dim_qk=576", "1 to 256"},
    {GOOD "q_dtype=f16 k_dtype=q8_0 v_dtype=q8_0 head_dim=128", "k_dtype=q8_0", "f16, bf16"},
    {GOOD "q_dtype=f16 k_dtype=f16 v_dtype=q8_0 o_dtype=f16 head_dim=128", "v_dtype=q8_0", "f16, bf16"},
    {GOOD "dtype=e4m3 head_dim=64", "q_dtype=e4m3", "f16, bf16"},
    {GOOD "q_dtype=f16 o_dtype=e5m2 head_dim=64", "o_dtype=e5m2", "f16, bf16"},
    {GOOD "dtype=int8 head_dim=64", "int8", "bf16"},
    {GOOD "dtype=complex64 head_dim=64", "complex64", "bf16"},
    {GOOD "dtype=f64 head_dim=64", "f64", "bf16"},
    {GOOD "dtype=f16 head_dim=0", "head_dim_qk=0", "1 to 256"},
    {GOOD "dtype=f16 head_dim=-64", "head_dim_qk=-64", "1 to 256"},
    {GOOD "dtype=f16 head_dim_qk=64 head_dim_v=512", "head_dim_v=512", "1 to 256"},
    {"dtype=f16 batch=-1 heads=4 seqlen_q=33 head_dim=64", "batch=-1", "0 to 2147483647"},
    {"dtype=f16 batch=1 heads=0 seqlen_q=33 head_dim=64", "heads=0", "1 to 2147483647"},
    {"dtype=f16 batch=1 heads=4 seqlen_q=-33 head_dim=64", "seqlen_q=-33", "0 to 2147418112"},
    {"dtype=f16 batch=1 heads=4 seqlen_q=33 seqlen_k=2147483647 head_dim=64", "seqlen_k=2147483647", "2147418112"},
    {"dtype=f16 batch=1 heads=5 kv_heads=2 seqlen_q=33 head_dim=64", "heads=5", "kv_heads=2"},
    {"dtype=f16 batch=2147483647 heads=2147483647 seqlen_q=65536 head_dim=256", "2^63", "batch=2147483647"},
    {GOOD "dtype=f16 head_dim=64 causal=diagonal", "diagonal", "bottom_right"},
    {GOOD "dtype=f16 head_dim=64 window_left=63", "window_left=63", "-1"},
    {GOOD "dtype=f16 head_dim=64 window_right=0", "window_right=0", "-1"},
    {GOOD "dtype=f16 head_dim=64 softcap=30", "softcap=30", "leave it at 0"},
    {GOOD "dtype=f16 head_dim=64 alibi=1", "alibi=1", "leave it at 0"},
    {GOOD "dtype=f16 head_dim=64 sinks=1", "sinks=1", "leave it at 0"},
    {GOOD "dtype=f16 head_dim=64 bias=f16", "bias=f16", "leave it at none"},
    {GOOD "dtype=f16 head_dim=64 mask=bool", "mask=bool", "leave it at none"},
    {GOOD "dtype=f16 head_dim=64 varlen=1", "varlen=1", "leave it at 0"},
    {GOOD "dtype=f16 head_dim=64 paged=1 page_size=16", "paged=1", "leave it at 0"},
    {GOOD "dtype=f16 head_dim=64 paged=1", "page_size", "1 to 65536"},
    {GOOD "dtype=f16 head_dim=64 strict_nan=1", "strict_nan=1", "leave it at 0"},
    {GOOD "dtype=f16 head_dim=64 dropout=1.5", "dropout=1.5", "0 to 1"},
    {GOOD "dtype=f16 head_dim=64 dropout=nan", "dropout", "0 to 1"},
    {GOOD "dtype=f16 head_dim=64 scale=inf", "scale", "3.4"},
    {GOOD "dtype=f16 head_dim=64 alignment=3", "alignment=3", "2, 4, 8 or 16"},
    {GOOD "dtype=f16 head_dim=64 index=huge", "huge", "wide"},
    {GOOD "dtype=f16 head_dim=64 lse=2", "lse=2", "0 to 1"},
    {GOOD "dtype=f16 head_dim=64 rotary=1", "rotary", "attention.forward"},
    {GOOD "dtype=f16", "head_dim_qk is missing", "1 to 256"},
};
enum { UNSUPPORTED = sizeof unsupported / sizeof unsupported[0] };

static void expect_words(int index, const char *who, attune_status status, const char *message)
{
    if ((status != ATTUNE_UNSUPPORTED && status != ATTUNE_INVALID) ||
        strstr(message, unsupported[index].value) == NULL || strstr(message, unsupported[index].allowed) == NULL) {
        fail_msg("%s of '%s': status %d, '%s' lacks '%s' or '%s'", who, unsupported[index].text, status, message,
                 unsupported[index].value, unsupported[index].allowed);
    }
}

/* the generator's answer: what params, show and the tuner hear */
static attune_status ask(int index, const char *target_text, char message[ERROR_MESSAGE_BYTES])
{
    struct problem problem;
    struct target target;
    struct candidate candidate;
    struct error error = {.message = ""};
    assert_int_equal(target_parse(target_text, &target, NULL), ATTUNE_OK);
    attune_status status = problem_parse(schema_attention_forward(), unsupported[index].text, &problem, &error);
    if (status == ATTUNE_OK) {
        status = candidate_default(generator, &problem, &target, &candidate, &error);
    }
    memcpy(message, error.message, ERROR_MESSAGE_BYTES);
    return status;
}

static void asking_and_calling_give_the_same_refusal(void **state)
{
    (void)state;
    static const char *const targets[] = {"host", "gfx906", "gfx1100", "sm_90a"};
    uint64_t helpers = compiler_helper_starts();
    for (int i = 0; i < UNSUPPORTED; i++) {
        char asked[ERROR_MESSAGE_BYTES], called[ERROR_MESSAGE_BYTES] = "", text[512];
        attune_problem *problem = NULL;
        attune_plan *plan = (attune_plan *)&problem;
        attune_status wanted = ATTUNE_OK;
        for (size_t t = sizeof targets / sizeof targets[0]; t > 0; t--) {
            wanted = ask(i, targets[t - 1], asked);
            expect_words(i, targets[t - 1], wanted, asked);
        }
        snprintf(text, sizeof text, "attention.forward %s", unsupported[i].text);
        attune_status status = attune_problem_parse(context, text, &problem);
        if (status == ATTUNE_OK) {
            status = attune_prepare(device, problem, NULL, &plan);
            assert_null(plan);
        }
        attune_last_error(context, called, sizeof called);
        expect_words(i, "a call", status, called);
        if (status != wanted || strstr(called, asked) == NULL) {
            fail_msg("'%s': asked %d '%s', called %d '%s'", text, wanted, asked, status, called);
        }
        attune_problem_destroy(problem);
    }
    assert_true(compiler_helper_starts() == helpers); /* nothing went as far as a compiler */
}

static void the_program_answers_the_same_with_an_exit_code(void **state)
{
    (void)state;
    static const char *const commands[][3] = {
        {"explain", "--device", NULL}, {"params", "--target", "attention.forward"}, {"show", "--target", NULL},
        {"verify", "--device", NULL},  {"compile", "--target", "--resources"},      {"tune", "--device", NULL}};
    for (int i = 0; i < UNSUPPORTED; i++) {
        for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++) {
            if ((i + (int)c) % 6 != 0) { /* each command hears each kind of refusal in turn */
                continue;
            }
            const struct process_result *result =
                attune(commands[c][0], "--problem", unsupported[i].text, commands[c][1], "host", commands[c][2], NULL);
            const char *said = buffer_string(&result->errors);
            const char *printed = buffer_string(&result->output);
            bool named = strstr(said, unsupported[i].value) != NULL || strstr(printed, unsupported[i].value) != NULL;
            bool told = strstr(said, "leave it") != NULL || strstr(said, unsupported[i].allowed) != NULL ||
                        strstr(printed, unsupported[i].allowed) != NULL;
            bool fine = result->exit_code == EXIT_IS_FAILED || result->exit_code == EXIT_IS_USAGE ||
                        strcmp(commands[c][0], "params") == 0 || strcmp(commands[c][0], "explain") == 0;
            if (result->signal != 0 || !named || !told || !fine) {
                fail_msg("attune %s --problem '%s': exit code %d, signal %d: %s%s", commands[c][0], unsupported[i].text,
                         result->exit_code, result->signal, said, printed);
            }
        }
    }
}

/* f32 queries on f16 keys and the like are no mistake: who asks hears yes */
static void types_may_differ_from_tensor_to_tensor(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f16", "bf16", "f32"};
    struct target target;
    assert_int_equal(target_parse("gfx906", &target, NULL), ATTUNE_OK);
    for (int i = 0; i < 81; i++) {
        char text[256];
        struct problem problem;
        struct candidate candidate;
        struct error error = {.message = ""};
        snprintf(text, sizeof text, GOOD "head_dim=72 q_dtype=%s k_dtype=%s v_dtype=%s o_dtype=%s", dtypes[i % 3],
                 dtypes[i / 3 % 3], dtypes[i / 9 % 3], dtypes[i / 27]);
        if (problem_parse(schema_attention_forward(), text, &problem, &error) != ATTUNE_OK ||
            candidate_default(generator, &problem, &target, &candidate, &error) != ATTUNE_OK) {
            fail_msg("%s: %s", text, error.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(asking_and_calling_give_the_same_refusal),
        cmocka_unit_test(the_program_answers_the_same_with_an_exit_code),
        cmocka_unit_test(types_may_differ_from_tensor_to_tensor),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
