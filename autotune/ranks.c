/* ranks.c - see ranks.h. One table says which variables each launcher sets. */
#include "autotune/ranks.h"

#include "base/control.h"
#include "base/digest.h"
#include "base/environment.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_PARTS = 4 };

struct launcher {
    const char *name;
    const char *rank, *local;
    const char *neighbours; /* how many ranks a machine has: a number, or Slurm's list "2(x3),1" by node */
    const char *sizes[2];   /* the first that is set counts */
    const char *needs;      /* not launched as a rank unless it is an ordinary number; NULL: rank suffices */
    /* The job is named by the first row that is set as a whole. Parts with '?' are optional; so are those with '!',
     * which are left out where a job that is started again goes on. */
    const char *jobs[3][JOB_PARTS];
};

/* Inner launchers first: mpirun inside a Slurm job starts its daemons with srun, whose variables the ranks inherit.
 * Slurm sets rank and size in batch scripts too, which are one process: only steps have ranks, and the steps
 * of batch scripts and interactive shells have numbers past 2^31. Open MPI's job number is
 * of 16 bits of chance; its transport key has 128. */
static const struct launcher launchers[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE",
     {"OMPI_COMM_WORLD_SIZE"},
     NULL,
     {{"OMPI_MCA_orte_precondition_transports", "?OMPI_MCA_ess_base_jobid"},
      {"PMIX_NAMESPACE"},
      {"OMPI_MCA_ess_base_jobid"}}},
    {"PMI",
     "PMI_RANK",
     "MPI_LOCALRANKID",
     "MPI_LOCALNRANKS",
     {"PMI_SIZE"},
     NULL,
     {{"PMI_JOBID", "?SLURM_CLUSTER_NAME", "!SLURM_RESTART_COUNT"},
      {"SLURM_JOB_ID", "SLURM_STEP_ID", "?SLURM_CLUSTER_NAME", "!SLURM_RESTART_COUNT"}}},
    {"Slurm",
     "SLURM_PROCID",
     "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     "SLURM_STEP_ID",
     {{"SLURM_JOB_ID", "SLURM_STEP_ID", "?SLURM_CLUSTER_NAME", "!SLURM_RESTART_COUNT"}}},
};

/* a whole number of 0 to `most`, nothing around it */
static bool read_whole(const char *text, long most, int *whole)
{
    char *end;
    long value = isdigit((unsigned char)text[0]) ? strtol(text, &end, 10) : -1;
    *whole = (int)value;
    return value >= 0 && value <= most && *end == '\0';
}

static attune_status check_job(const char *what, const char *job, struct error *error)
{
    size_t length = strlen(job);
    for (size_t i = 0; i < length; i++) {
        if (control_length(job + i) > 0) {
            return error_set(error, ATTUNE_INVALID, "%s has a control character in it", what);
        }
    }
    if (length == 0 || length >= RANKS_JOB_BYTES) {
        return error_set(error, ATTUNE_INVALID, "%s '%.60s' has %zu bytes: a job's name has 1 to %d", what, job, length,
                         RANKS_JOB_BYTES - 1);
    }
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ launchers */

/* false when a part of it is missing */
static bool name_job(const char *const parts[JOB_PARTS], bool goes_on, char *job, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < JOB_PARTS && parts[i] != NULL; i++) {
        bool optional = parts[i][0] == '?' || parts[i][0] == '!';
        if (goes_on && parts[i][0] == '!') {
            continue;
        }
        const char *value = environment_get(parts[i] + optional);
        if (value == NULL || value[0] == '\0') {
            if (optional) {
                continue;
            }
            return false;
        }
        int put = snprintf(job + used, bytes - used, "%s%s", used > 0 ? "." : "", value);
        if (put < 0 || (size_t)put >= bytes - used) {
            return false;
        }
        used += (size_t)put;
    }
    return used > 0;
}

/* The entry of this node in "2(x3),1": nodes 0 to 2 have two each, node 3 has one. 0 for what is no such list, or where
 * Slurm does not say which node this is: it is only for not starting too many compilers. */
static int count_neighbours(const char *list)
{
    const char *node_text = environment_get("SLURM_NODEID");
    int node = 0;
    if (list == NULL || (node_text != NULL && !read_whole(node_text, INT32_MAX, &node))) {
        return 0;
    }
    for (const char *at = list; isdigit((unsigned char)*at);) {
        char *end;
        long tasks = strtol(at, &end, 10), nodes = 1;
        if (strncmp(end, "(x", 2) == 0 && isdigit((unsigned char)end[2])) {
            nodes = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        if (node < nodes) {
            return tasks > 0 && tasks <= RANKS_MAX ? (int)tasks : 0;
        }
        node -= nodes > INT32_MAX ? INT32_MAX : (int)nodes;
        at = end + (*end == ',');
    }
    return 0;
}

static attune_status read_launcher(const struct launcher *launcher, const char *rank, const char *job, bool goes_on,
                                   struct ranks *ranks, struct error *error)
{
    const char *size_name = launcher->sizes[0], *size = environment_get(size_name);
    if (size == NULL && launcher->sizes[1] != NULL) {
        size_name = launcher->sizes[1];
        size = environment_get(size_name);
    }
    if (size == NULL) {
        return error_set(error, ATTUNE_INVALID,
                         "%s=%s: a rank of how many? %s is not set; --rank R/N --job NAME says both", launcher->rank,
                         rank, launcher->sizes[0]);
    }
    if (!read_whole(size, RANKS_MAX, &ranks->size) || ranks->size == 0) {
        return error_set(error, ATTUNE_INVALID, "%s=%s: a number of ranks is 1 to %d; unset it to tune alone",
                         size_name, size, RANKS_MAX);
    }
    if (!read_whole(rank, ranks->size - 1L, &ranks->rank)) {
        return error_set(error, ATTUNE_INVALID, "%s=%s: a rank of %s=%s is 0 to %d; unset both to tune alone",
                         launcher->rank, rank, size_name, size, ranks->size - 1);
    }
    const char *local = environment_get(launcher->local);
    if (local != NULL && !read_whole(local, ranks->size - 1L, &ranks->local)) {
        return error_set(error, ATTUNE_INVALID, "%s=%s: a rank on one machine is 0 to %d of %s=%s", launcher->local,
                         local, ranks->size - 1, size_name, size);
    }
    ranks->neighbours = count_neighbours(environment_get(launcher->neighbours));
    ranks->launcher = launcher->name;
    if (ranks->size == 1) {
        return ATTUNE_OK;
    }
    if (job != NULL) {
        snprintf(ranks->job, sizeof ranks->job, "%s", job);
        return ATTUNE_OK;
    }
    int used = snprintf(ranks->job, sizeof ranks->job, "%s ", launcher->name);
    for (size_t i = 0; i < sizeof launcher->jobs / sizeof launcher->jobs[0]; i++) {
        if (name_job(launcher->jobs[i], goes_on, ranks->job + used, sizeof ranks->job - (size_t)used)) {
            return check_job("the launcher's job", ranks->job, error);
        }
    }
    return error_set(error, ATTUNE_INVALID,
                     "%s=%s of %s=%s: no variable says which job this is; --job NAME, the same for all its ranks and "
                     "another one for each job, does",
                     launcher->rank, rank, size_name, size);
}

/* ------------------------------------------------------------------------------------------------ options */

static attune_status read_place(const char *place, const char *job, struct ranks *ranks, struct error *error)
{
    char text[32];
    const char *slash = strchr(place, '/');
    size_t length = slash != NULL ? (size_t)(slash - place) : 0;
    if (slash == NULL || length >= sizeof text || !read_whole(slash + 1, RANKS_MAX, &ranks->size) || ranks->size == 0) {
        return error_set(error, ATTUNE_INVALID, "--rank %s: write R/N, rank R of N, as in 0/4; N is 1 to %d", place,
                         RANKS_MAX);
    }
    memcpy(text, place, length);
    text[length] = '\0';
    if (!read_whole(text, ranks->size - 1L, &ranks->rank)) {
        return error_set(error, ATTUNE_INVALID, "--rank %s: a rank of %d is 0 to %d", place, ranks->size,
                         ranks->size - 1);
    }
    if (ranks->size > 1 && job == NULL) {
        return error_set(error, ATTUNE_INVALID,
                         "--rank %s: --job NAME is missing, the same for all ranks of the job and another one for each "
                         "job",
                         place);
    }
    ranks->launcher = "--rank";
    snprintf(ranks->job, sizeof ranks->job, "%s", job != NULL ? job : "");
    return ATTUNE_OK;
}

attune_status ranks_find(const char *place, const char *job, bool goes_on, struct ranks *ranks, struct error *error)
{
    *ranks = (struct ranks){.size = 1, .local = -1, .launcher = "none"};
    ranks_set_patience(ranks, 30.0);
    attune_status status = job != NULL ? check_job("--job", job, error) : ATTUNE_OK;
    if (status != ATTUNE_OK) {
        return status;
    }
    if (place != NULL) {
        return read_place(place, job, ranks, error);
    }
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *rank = environment_get(launchers[i].rank);
        const char *needed = launchers[i].needs != NULL ? environment_get(launchers[i].needs) : "0";
        int number;
        if (rank != NULL && needed != NULL && read_whole(needed, INT32_MAX, &number)) {
            return read_launcher(&launchers[i], rank, job, goes_on, ranks, error);
        }
    }
    if (job != NULL) {
        return error_set(error, ATTUNE_INVALID,
                         "--job %s: no launcher says which rank of it this is; add --rank R/N, or leave --job out",
                         job);
    }
    return ATTUNE_OK;
}

void ranks_set_patience(struct ranks *ranks, double silence_seconds)
{
    ranks->patience = (struct ranks_patience){.begin = 2.0 * silence_seconds,
                                              .silence = silence_seconds,
                                              .stall = 20.0 * silence_seconds,
                                              .poll = silence_seconds < 5.0 ? silence_seconds / 20.0 : 0.25};
}

/* ------------------------------------------------------------------------------------------------ names, shares */

static void run_of(const struct ranks *ranks, const char *problem, const char *what, char run[RANKS_RUN_BYTES])
{
    struct digest_state state;
    struct digest digest;
    char hex[DIGEST_HEX_BYTES], size[16];
    snprintf(size, sizeof size, "%d", ranks->size);
    const char *const fields[] = {"ranks", ranks->job, size, problem, what};
    digest_begin(&state);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        digest_field(&state, fields[i], strlen(fields[i]));
    }
    digest_end(&state, &digest);
    digest_hex(&digest, hex);
    snprintf(run, RANKS_RUN_BYTES, "%.32s", hex);
}

void ranks_journal_run(const struct ranks *ranks, const char *problem, int rank, int turn, char run[RANKS_RUN_BYTES])
{
    char what[48];
    snprintf(what, sizeof what, "journal %d %d", rank, turn);
    run_of(ranks, problem, what, run);
}

void ranks_record_run(const struct ranks *ranks, const char *problem, char run[RANKS_RUN_BYTES])
{
    run_of(ranks, problem, "record", run);
}

int ranks_owner_of_problem(const struct ranks *ranks, int number)
{
    return number % ranks->size;
}

int ranks_owner_of_candidate(const struct ranks *ranks, const char *id)
{
    struct digest digest;
    uint32_t draw;
    digest_of(id, strlen(id), &digest);
    memcpy(&draw, digest.bytes, sizeof draw);
    return (int)(draw % (uint32_t)ranks->size);
}
