/* cmd_run.c - `attune run`: attention on arrays from .npy files. Everything is checked before anything runs, and
 * nothing is written unless everything ran. */
#include "base/files.h"
#include "cli/npy.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const struct option options[] = {
    CLI_OPTION_PROBLEM,
    CLI_OPTION_DEVICE,
    {"q", 0, OPTION_TEXT, false, "FILE", "[batch, seqlen_q, heads, head_dim_qk]"},
    {"k", 0, OPTION_TEXT, false, "FILE", "[batch, seqlen_k, kv_heads, head_dim_qk]"},
    {"v", 0, OPTION_TEXT, false, "FILE", "[batch, seqlen_k, kv_heads, head_dim_v]"},
    {"o", 0, OPTION_TEXT, false, "FILE", "output, [batch, seqlen_q, heads, head_dim_v]"},
    {"lse", 0, OPTION_TEXT, false, "FILE", "output of problems with lse=1, float32 [batch, heads, seqlen_q]"},
    {"scale", 0, OPTION_REAL, false, "X", "scale of the scores instead of the problem's"},
    {"seed", 0, OPTION_SEED, false, "S", "of dropout (default 0)"},
    {"offset", 0, OPTION_SEED, false, "N", "of dropout's counter, below 2^32 (default 0)"},
    CLI_OPTION_STORE,
    CLI_OPTION_JSON,
    CLI_OPTION_HELP,
    {0},
};

enum { Q, K, V, O, LSE, TENSORS };

struct tensor {
    const char *option; /* also the tensor's name */
    const char *path;   /* NULL: not given */
    char dtype[FIELD_NAME_BYTES];
    int rank;
    int64_t shape[4];
    size_t bytes;
    void *host;
    void *device;
};

static const char *const axes[TENSORS][4] = {
    [Q] = {"batch", "seqlen_q", "heads", "head_dim_qk"},   [K] = {"batch", "seqlen_k", "kv_heads", "head_dim_qk"},
    [V] = {"batch", "seqlen_k", "kv_heads", "head_dim_v"}, [O] = {"batch", "seqlen_q", "heads", "head_dim_v"},
    [LSE] = {"batch", "heads", "seqlen_q", NULL},
};

static void describe_tensors(struct cli *cli, const struct problem *problem, struct tensor tensors[TENSORS])
{
    static const char *const names[] = {"q", "k", "v", "o", "lse"};
    for (int i = 0; i < TENSORS; i++) {
        struct tensor *tensor = &tensors[i];
        char field[16];
        *tensor = (struct tensor){.option = names[i], .path = options_text(&cli->options, names[i])};
        snprintf(field, sizeof field, "%s_dtype", names[i]);
        snprintf(tensor->dtype, sizeof tensor->dtype, "%s", i == LSE ? "f32" : problem_choice(problem, field));
        tensor->bytes = (size_t)dtype_bytes(tensor->dtype);
        for (; tensor->rank < 4 && axes[i][tensor->rank] != NULL; tensor->rank++) {
            tensor->shape[tensor->rank] = problem_integer(problem, axes[i][tensor->rank]);
            tensor->bytes *= (size_t)tensor->shape[tensor->rank];
        }
    }
}

static enum npy_dtype file_dtype(const char *dtype)
{
    return strcmp(dtype, "f16") == 0 ? NPY_F2 : strcmp(dtype, "bf16") == 0 ? NPY_U2 : NPY_F4;
}

static attune_status check_shape(const struct tensor *tensor, int index, const struct npy *npy, struct error *error)
{
    if (npy->rank != tensor->rank) {
        return error_set(error, ATTUNE_INVALID, "--%s: the array has %d axes, 4 are needed: batch, seq, head, dim",
                         tensor->option, npy->rank);
    }
    for (int i = 0; i < tensor->rank; i++) {
        if (npy->shape[i] != tensor->shape[i]) {
            return error_set(error, ATTUNE_INVALID,
                             "--%s: axis %d has %lld elements where the problem has %s=%lld: change the array or the "
                             "problem",
                             tensor->option, i, (long long)npy->shape[i], axes[index][i], (long long)tensor->shape[i]);
        }
    }
    return ATTUNE_OK;
}

/* float64 is rounded to the tensor's dtype; any other dtype must be the tensor's own */
static attune_status convert(struct tensor *tensor, const struct npy *npy, const char *data, struct error *error)
{
    if (npy->dtype == file_dtype(tensor->dtype)) {
        memcpy(tensor->host, data, tensor->bytes);
        return ATTUNE_OK;
    }
    if (npy->dtype != NPY_F8) {
        return error_set(error, ATTUNE_INVALID,
                         "--%s: the array is %s where the problem has %s_dtype=%s, which is read from %s or float64",
                         tensor->option, npy_dtype_name(npy->dtype), tensor->option, tensor->dtype,
                         npy_dtype_name(file_dtype(tensor->dtype)));
    }
    for (int64_t i = 0; i < npy->elements; i++) {
        double value;
        memcpy(&value, data + (size_t)i * sizeof value, sizeof value);
        if (strcmp(tensor->dtype, "f32") == 0) {
            ((float *)tensor->host)[i] = (float)value;
        } else if (strcmp(tensor->dtype, "f16") == 0) {
            ((uint16_t *)tensor->host)[i] = half_from_double(value);
        } else {
            ((uint16_t *)tensor->host)[i] = bfloat_from_double(value);
        }
    }
    return ATTUNE_OK;
}

static attune_status read_input(struct tensor *tensor, int index, struct error *error)
{
    struct buffer file = BUFFER_INIT;
    struct npy npy;
    attune_status status = npy_read(tensor->path, &file, &npy, error);
    if (status != ATTUNE_OK) {
        error_prefix(error, "--%s", tensor->option);
    } else {
        status = check_shape(tensor, index, &npy, error);
    }
    if (status == ATTUNE_OK) {
        status = convert(tensor, &npy, buffer_string(&file) + npy.offset, error);
    }
    buffer_free(&file);
    return status;
}

static attune_status check_options(struct cli *cli, const struct problem *problem, const struct tensor tensors[TENSORS],
                                   struct error *error)
{
    for (int i = Q; i <= O; i++) {
        if (tensors[i].path == NULL) {
            return error_set(error, ATTUNE_INVALID, "--%s is missing: --%s FILE.npy", tensors[i].option,
                             tensors[i].option);
        }
        if (dtype_bytes(tensors[i].dtype) == 0) {
            return error_set(error, ATTUNE_UNSUPPORTED, "--problem: %s_dtype=%s has no .npy form: f16, bf16 or f32",
                             tensors[i].option, tensors[i].dtype);
        }
    }
    bool lse = problem_integer(problem, "lse") != 0;
    if (lse != (tensors[LSE].path != NULL)) {
        return error_set(error, ATTUNE_INVALID,
                         lse ? "the problem has lse=1 and needs --lse FILE.npy" : "--lse needs a problem with lse=1");
    }
    bool dropout = problem_real(problem, "dropout") > 0;
    if (!dropout && (options_has(&cli->options, "seed") || options_has(&cli->options, "offset"))) {
        return error_set(error, ATTUNE_INVALID, "--seed and --offset need a problem with dropout");
    }
    if (options_has(&cli->options, "scale") && options_real(&cli->options, "scale", 1) == 0) {
        return error_set(error, ATTUNE_INVALID,
                         "--scale 0 makes every score 0 and is not there: leave it out for the "
                         "problem's scale, or give q as zeros");
    }
    if (options_whole(&cli->options, "offset", 0) > UINT32_MAX) {
        return error_set(error, ATTUNE_INVALID, "--offset %llu is not below 2^32",
                         (unsigned long long)options_whole(&cli->options, "offset", 0));
    }
    return ATTUNE_OK;
}

/* is it one file under both names? */
static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) == 0 && stat(b, &y) == 0) {
        return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    }
    return strcmp(a, b) == 0;
}

/* outputs that could not be written, or would overwrite an input or each other, before anything runs */
static attune_status check_outputs(const struct tensor tensors[TENSORS], struct error *error)
{
    for (int i = O; i < TENSORS; i++) {
        if (tensors[i].path == NULL) {
            continue;
        }
        attune_status status = file_check_output(tensors[i].path, error);
        if (status != ATTUNE_OK) {
            return error_prefix(error, "--%s", tensors[i].option);
        }
        for (int j = 0; j < i; j++) {
            if (tensors[j].path != NULL && same_file(tensors[i].path, tensors[j].path)) {
                return error_set(error, ATTUNE_INVALID, "--%s and --%s are the same file '%s': name another for --%s",
                                 tensors[j].option, tensors[i].option, tensors[i].path, tensors[i].option);
            }
        }
    }
    return ATTUNE_OK;
}

static attune_status place(const struct session *session, struct tensor *tensor, bool input, struct error *error)
{
    const struct driver *driver = session->driver;
    size_t bytes = tensor->bytes > 0 ? tensor->bytes : 1;
    attune_status status = driver->allocate(driver, session->ordinal, bytes, &tensor->device, error);
    if (status == ATTUNE_OK && input && tensor->bytes > 0) {
        status = driver->copy_in(driver, session->ordinal, tensor->device, tensor->host, tensor->bytes, error);
    } else if (status == ATTUNE_OK) {
        status = driver->fill(driver, session->ordinal, tensor->device, 0xff, bytes, error);
    }
    return status;
}

static attune_status launch(struct cli *cli, const struct session *session, const struct problem *problem,
                            const attune_plan *plan, size_t workspace_bytes, struct tensor tensors[TENSORS],
                            struct error *error)
{
    const struct driver *driver = session->driver;
    void *workspace = NULL;
    attune_status status = ATTUNE_OK;
    bool lse = tensors[LSE].path != NULL;
    for (int i = 0; i < TENSORS && status == ATTUNE_OK; i++) {
        status = i == LSE && !lse ? ATTUNE_OK : place(session, &tensors[i], i < O, error);
    }
    if (status == ATTUNE_OK && workspace_bytes > 0) {
        status = driver->allocate(driver, session->ordinal, workspace_bytes, &workspace, error);
    }
    if (status == ATTUNE_OK) {
        attune_attention_arguments arguments = {
            .size = sizeof arguments,
            .q = tensors[Q].device,
            .k = tensors[K].device,
            .v = tensors[V].device,
            .o = tensors[O].device,
            .lse = tensors[LSE].device,
            .scale = options_real(&cli->options, "scale", problem_real(problem, "scale")),
            .seed = options_whole(&cli->options, "seed", 0),
            .offset = options_whole(&cli->options, "offset", 0),
        };
        status = attune_launch_attention(plan, &arguments, NULL, workspace, workspace_bytes);
        if (status != ATTUNE_OK) {
            session_error(session, status, error);
        }
    }
    if (status == ATTUNE_OK) {
        status = driver->synchronize(driver, session->ordinal, NULL, error);
    }
    for (int i = O; i < TENSORS && status == ATTUNE_OK; i++) {
        if (tensors[i].bytes > 0 && tensors[i].path != NULL) {
            status =
                driver->copy_out(driver, session->ordinal, tensors[i].host, tensors[i].device, tensors[i].bytes, error);
        }
    }
    for (int i = 0; i < TENSORS; i++) {
        if (tensors[i].device != NULL) {
            driver->release(driver, session->ordinal, tensors[i].device, NULL);
        }
    }
    if (workspace != NULL) {
        driver->release(driver, session->ordinal, workspace, NULL);
    }
    return status;
}

static attune_status write_outputs(struct cli *cli, const struct tensor tensors[TENSORS], struct error *error)
{
    attune_status status = ATTUNE_OK;
    for (int i = O; i < TENSORS && status == ATTUNE_OK; i++) {
        if (tensors[i].path != NULL) {
            status = npy_write(tensors[i].path, file_dtype(tensors[i].dtype), tensors[i].rank, tensors[i].shape,
                               tensors[i].host, error);
            json_set_text(cli->result, tensors[i].option, tensors[i].path);
        }
    }
    return status;
}

static attune_status run_on_device(struct cli *cli, const struct problem *problem, const char *parameters,
                                   struct tensor tensors[TENSORS], struct error *error)
{
    struct session session;
    attune_plan *plan = NULL;
    attune_plan_info info;
    attune_status status = session_open(cli, ATTUNE_JIT_FROM_ENVIRONMENT, &session, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    status = session_prepare(&session, problem, parameters[0] != '\0' ? parameters : NULL, &plan, &info, error);
    if (status == ATTUNE_OK) {
        json_set_text(cli->result, "device", session.device_name);
        json_object_set_new(cli->result, "plan", describe_plan(&info));
        status = launch(cli, &session, problem, plan, info.workspace_bytes, tensors, error);
    }
    attune_plan_destroy(plan);
    session_close(&session);
    if (status == ATTUNE_OK) {
        status = write_outputs(cli, tensors, error);
    }
    if (status == ATTUNE_OK && !cli->json) {
        printf("%s: %s plan %s (%s)\n", tensors[O].path, rung_name(info.rung), info.candidate_id, info.candidate);
    }
    return status;
}

static attune_status run(struct cli *cli, struct error *error)
{
    struct problem problem;
    struct tensor tensors[TENSORS] = {0};
    char parameters[CANDIDATE_TEXT_BYTES];
    attune_status status = cli_problem(cli, &problem, error);
    if (status == ATTUNE_OK && strcmp(problem.schema->family, "attention.forward") != 0) {
        status = error_set(error, ATTUNE_UNSUPPORTED,
                           "--problem: run knows the tensors of attention.forward, not of %s", problem.schema->family);
    }
    if (status == ATTUNE_OK) {
        status = cli_parameters(cli, 0, parameters, error);
    }
    if (status != ATTUNE_OK) {
        return status;
    }
    describe_tensors(cli, &problem, tensors);
    status = check_options(cli, &problem, tensors, error);
    if (status == ATTUNE_OK) {
        status = check_outputs(tensors, error);
    }
    for (int i = 0; i < TENSORS && status == ATTUNE_OK; i++) {
        if (tensors[i].path == NULL) {
            continue;
        }
        tensors[i].host = calloc(tensors[i].bytes > 0 ? tensors[i].bytes : 1, 1);
        if (tensors[i].host == NULL) {
            error_no_memory(error);
            status = ATTUNE_NO_MEMORY;
        } else if (i < O) {
            status = read_input(&tensors[i], i, error);
        }
    }
    if (status == ATTUNE_OK) {
        status = run_on_device(cli, &problem, parameters, tensors, error);
    }
    for (int i = 0; i < TENSORS; i++) {
        free(tensors[i].host);
    }
    return status;
}

const struct command command_run = {
    .name = "run",
    .usage = "--problem P --q FILE --k FILE --v FILE --o FILE [--lse FILE] [name=value ...]",
    .summary = "attention on arrays from .npy files",
    .help =
        "Arrays are little-endian and C-ordered, axes (batch, seq, head, dim): float16, float32, float64 (rounded to\n"
        "the problem's dtype), and uint16 for the bits of bf16. Outputs have the problem's dtypes.\n\n"
        "  attune run --problem \"dtype=f16 batch=1 heads=4 seqlen_q=128 head_dim=64 causal=1\" \\\n"
        "    --q q.npy --k k.npy --v v.npy --o o.npy\n",
    .options = options,
    .positional_minimum = 0,
    .positional_maximum = -1,
    .run = run,
};
