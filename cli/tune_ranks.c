/* tune_ranks.c - see tune_ranks.h. */
#include "cli/tune_ranks.h"

#include "autotune/attention.h"
#include "autotune/rank_wait.h"
#include "runtime/driver.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_team(const struct tune_team *team)
{
    return team->ranks.size > 1;
}

/* ------------------------------------------------------------------------------------------------ shares */

attune_status tune_team_open(const struct options *given, const struct problem_list *problems, struct tune_team *team,
                             struct error *error)
{
    *team = (struct tune_team){.count = problems->count};
    attune_status status = ranks_find(options_text(given, "rank"), options_text(given, "job"),
                                      options_has(given, "resume"), &team->ranks, error);
    if (status != ATTUNE_OK) {
        return status;
    }
    double limit = options_real(given, "peer-limit", 0.0);
    if (limit > 0.0 && !is_team(team)) {
        return error_set(error, ATTUNE_INVALID,
                         "--peer-limit: there are no other ranks; --rank R/N --job NAME, mpirun "
                         "or srun make several");
    }
    if (limit > 0.0) {
        ranks_set_patience(&team->ranks, limit);
    }
    team->ours = calloc((size_t)problems->count + 1, sizeof *team->ours);
    team->left_out = calloc((size_t)problems->count + 1, sizeof *team->left_out);
    status = team->ours != NULL && team->left_out != NULL ? ATTUNE_OK : error_no_memory(error);
    if (status != ATTUNE_OK) {
        tune_team_close(team);
        return status;
    }
    team->share = (struct tune_share){
        .ranks = &team->ranks, .divided = problems->count < team->ranks.size, .rank = team->ranks.rank};
    for (int i = 0; i < problems->count; i++) {
        const bool dealt = team->share.divided || ranks_owner_of_problem(&team->ranks, i) == team->ranks.rank;
        team->ours[i] = dealt;
    }
    return ATTUNE_OK;
}

void tune_team_close(struct tune_team *team)
{
    free(team->ours);
    free(team->left_out);
    team->ours = team->left_out = NULL;
}

const struct tune_share *tune_team_share(const struct tune_team *team)
{
    return is_team(team) ? &team->share : NULL;
}

int tune_team_workers(const struct tune_team *team)
{
    const long most = 64, cores = sysconf(_SC_NPROCESSORS_ONLN);
    const int neighbours = team->ranks.neighbours > 0 ? team->ranks.neighbours : 1;
    long workers = cores / neighbours;
    cpu_set_t allowed;
    if (!is_team(team)) {
        return 0;
    }
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) < workers) {
        workers = CPU_COUNT(&allowed);
    }
    return workers < 1 ? 1 : workers > most ? (int)most : (int)workers;
}

bool tune_team_begins(struct tune_team *team, struct store *store, const struct problem_list *problems, int number)
{
    char text[PROBLEM_TEXT_BYTES];
    if (is_team(team) && !team->share.divided &&
        problem_format(&problems->items[number].problem, text, NULL) == ATTUNE_OK) {
        team->ours[number] = !rank_is_at_work(&team->ranks, store, text, team->ranks.rank, 1);
    }
    return team->ours[number];
}

/* the GPUs of the first driver that has any, which is the best device's */
static int count_devices(const struct driver **driver)
{
    struct error unused;
    int devices = 0;
    for (int i = 0; driver_name(i) != NULL; i++) {
        if (strcmp(driver_name(i), "host") != 0 && driver_get(driver_name(i), driver, &unused) == ATTUNE_OK &&
            (*driver)->count(*driver, &devices, &unused) == ATTUNE_OK && devices > 0) {
            return devices;
        }
    }
    return 0;
}

attune_status tune_team_device(struct tune_team *team, const char *given, const char **device, struct error *error)
{
    const struct driver *driver;
    int devices;
    *device = given;
    if (!is_team(team)) {
        return ATTUNE_OK;
    }
    if (given != NULL && (strchr(given, ',') != NULL || strcmp(given, "all") == 0)) {
        return error_set(error, ATTUNE_INVALID,
                         "--device %s: a rank tunes on one device; without --device each rank takes the GPU that its "
                         "launcher's local rank picks",
                         given);
    }
    if (given != NULL || (devices = count_devices(&driver)) <= 1) { /* one may be what the launcher left of several */
        return ATTUNE_OK;
    }
    if (team->ranks.local < 0) {
        return error_set(error, ATTUNE_INVALID,
                         "rank %d of %d: this machine has %d GPUs, and nothing says which one is this rank's; --device "
                         "%s:N does",
                         team->ranks.rank, team->ranks.size, devices, driver->name);
    }
    snprintf(team->device, sizeof team->device, "%s:%d", driver->name, team->ranks.local % devices);
    *device = team->device;
    return ATTUNE_OK;
}

/* ------------------------------------------------------------------------------------------------ telling */

void tune_team_say(const struct tune_team *team)
{
    if (is_team(team)) {
        fprintf(stderr, "attune tune: rank %d of %d of job '%s': %s\n", team->ranks.rank, team->ranks.size,
                team->ranks.job,
                team->share.divided ? "a share of each problem's candidates" : "a share of the problems");
    }
}

void tune_team_describe(const struct tune_team *team, json_t *answer)
{
    if (!is_team(team)) {
        return;
    }
    json_t *ranks = json_object();
    json_set_whole(ranks, "rank", team->ranks.rank);
    json_set_whole(ranks, "size", team->ranks.size);
    json_set_text(ranks, "launcher", team->ranks.launcher);
    json_set_text(ranks, "job", team->ranks.job);
    json_set_text(ranks, "divided", team->share.divided ? "candidates" : "problems");
    json_object_set_new(answer, "ranks", ranks);
}

static void say_peer(const struct tune_peer *peer)
{
    if (strcmp(peer->state, "lost") == 0) {
        fprintf(stderr,
                "attune tune: rank %d is counted with what it has: its journal %s has no end, and nobody goes on with "
                "it\n",
                peer->rank, peer->journal);
    } else if (strcmp(peer->state, "absent") == 0) {
        fprintf(stderr,
                "attune tune: rank %d has no journal here: it has not begun, or its cache folder is another one; all "
                "ranks need one on a file system that they share\n",
                peer->rank);
    } else if (strcmp(peer->state, "elsewhere") == 0) {
        fprintf(stderr, "attune tune: rank %d is on another kind of device, and is left out\n", peer->rank);
    }
}

void tune_team_describe_row(const struct tune_team *team, const struct tune_result *result, bool here, json_t *row)
{
    if (!is_team(team)) {
        return;
    }
    json_t *ranks = json_object(), *journals = json_array(), *peers = json_array();
    int answered = 0;
    if (result->run[0] != '\0') {
        json_array_append_new(journals, json_string(result->run));
    }
    for (int i = 0; i < result->peer_count; i++) {
        const struct tune_peer *peer = &result->peers[i];
        json_t *item = json_object();
        say_peer(peer);
        json_set_whole(item, "rank", peer->rank);
        json_set_text(item, "state", peer->state);
        json_array_append_new(peers, item);
        answered += strcmp(peer->state, "answered") == 0;
        if (peer->merged) {
            json_array_append_new(journals, json_string(peer->journal));
        }
    }
    json_set_whole(ranks, "answered", answered);
    json_set_whole(ranks, "lost", result->peer_count - answered);
    json_object_set_new(ranks, "peers", peers);
    json_object_set_new(ranks, "journals", journals);
    json_set_flag(ranks, "adopted", result->adopted);
    json_set_flag(ranks, "here", here);
    json_object_set_new(row, "ranks", ranks);
    if (!team->share.divided) {
        json_set_whole(row, "rank", team->ranks.rank);
        json_set_whole(row, "turn", 0);
    }
}

static void print_peers(const json_t *ranks, int peers)
{
    const int answered = (int)json_integer_value(json_object_get(ranks, "answered"));
    const int journals = (int)json_array_size(json_object_get(ranks, "journals"));
    if (peers == 1) {
        printf("  the other rank %s; ", answered == 1 ? "answered" : "did not answer");
    } else {
        printf("  %d of %d other ranks answered; ", answered, peers);
    }
    if (json_is_true(json_object_get(ranks, "adopted"))) {
        printf("another one published the choice; there are %d journals\n", journals);
    } else {
        printf("this one published the choice, from %d %s\n", journals, plural(journals, "journal", "journals"));
    }
}

void tune_team_print_row(const json_t *row)
{
    const json_t *ranks = json_object_get(row, "ranks");
    const int peers = (int)json_array_size(json_object_get(ranks, "peers"));
    const int owner = (int)json_integer_value(json_object_get(row, "rank"));
    const bool here = json_is_true(json_object_get(ranks, "here"));
    if (peers > 0) {
        print_peers(ranks, peers);
    } else if (json_object_get(row, "rank") == NULL) {
        return;
    } else if (json_integer_value(json_object_get(row, "turn")) == 0) {
        printf("  tuned by rank %d%s\n", owner, here ? ", this one" : "");
    } else {
        printf("  rank %d, whose it was, did not come to its end: %s rank tuned it\n", owner,
               here ? "this" : "another");
    }
}

/* ------------------------------------------------------------------------------------------------ others' problems */

struct collection {
    struct tune_team *team;
    const struct tune_work *work;
    const struct problem_list *problems;
    json_t **rows;
    struct failures *failures;
    int *turns; /* by problem: which turn is waited for; -1: settled */
    int not_begun;
};

static void fail(struct collection *c, int number, struct error *why)
{
    failures_add(c->failures, "tune", c->problems->count, &c->problems->items[number], why);
    c->turns[number] = -1;
}

static bool is_stopped(const struct collection *c)
{
    const volatile int *stop = c->work->settings->stop;
    return stop != NULL && *stop != 0;
}

/* a folder's name as record_device_folder writes it: what a journal says is not trusted with a path */
static bool is_folder_name(const char *text)
{
    return text[0] != '\0' && text[0] != '.' && strchr(text, '/') == NULL;
}

/* "llama", or "problem 2" where the list gives no name */
static const char *name_of(const struct collection *c, int number, char text[PROBLEM_NAME_BYTES])
{
    const char *name = c->problems->items[number].name;
    if (name[0] != '\0') {
        return name;
    }
    snprintf(text, PROBLEM_NAME_BYTES, "problem %d", number + 1);
    return text;
}

/* the record that the job left of a problem; ATTUNE_NOT_FOUND */
static attune_status find_record(const struct collection *c, int number, const char *folder, struct record *found,
                                 struct error *error)
{
    const struct problem *problem = &c->problems->items[number].problem;
    char text[PROBLEM_TEXT_BYTES], specialisation[PROBLEM_TEXT_BYTES], run[RANKS_RUN_BYTES];
    struct record *records = NULL;
    int count = 0, at = -1;
    attune_status status = problem_format(problem, text, error);
    if (status == ATTUNE_OK) {
        status = problem_specialisation(problem, specialisation, error);
    }
    if (status == ATTUNE_OK && is_folder_name(folder)) {
        status = store_records(c->work->store, folder, specialisation, &records, &count, error);
    }
    ranks_record_run(&c->team->ranks, text, run);
    for (int i = 0; i < count; i++) {
        if (at < 0 && strcmp(records[i].run, run) == 0 && strcmp(records[i].problem, text) == 0) {
            at = i;
            *found = records[i];
        } else {
            record_free(&records[i]);
        }
    }
    free(records);
    return status != ATTUNE_OK || at >= 0
               ? status
               : error_set(error, ATTUNE_NOT_FOUND, "the record of job '%s' is not there", c->team->ranks.job);
}

/* the outcomes that count, as the result of a run has them */
static attune_status take_outcomes(const struct journal_reading *reading, struct tune_result *result,
                                   struct error *error)
{
    result->outcomes = calloc((size_t)reading->outcome_count + 1, sizeof *result->outcomes);
    if (result->outcomes == NULL) {
        return error_no_memory(error);
    }
    for (int i = 0; i < reading->outcome_count; i++) {
        if (reading->outcomes[i].counts) {
            result->outcomes[result->outcome_count++] = reading->outcomes[i].what;
        }
    }
    return ATTUNE_OK;
}

static double count_operations(const struct collection *c, int number)
{
    const struct problem *problem = &c->problems->items[number].problem;
    struct attention attention;
    if (problem->schema->built_in && attention_from_problem(problem, &attention, NULL) == ATTUNE_OK) {
        return attention_operations(&attention);
    }
    return generator_operations(c->work->generator, problem);
}

static void set_row(struct collection *c, int number, const struct tune_result *result, bool here, int owner, int turn)
{
    const struct named_problem *item = &c->problems->items[number];
    json_t *row = json_object();
    if (item->name[0] != '\0') {
        json_set_text(row, "name", item->name);
    }
    c->work->describe(row, result);
    tune_team_describe_row(c->team, result, here, row);
    json_set_whole(row, "rank", owner);
    json_set_whole(row, "turn", turn);
    c->rows[number] = row;
    c->turns[number] = -1;
}

/* another rank's end: its record, or that it found nothing */
static void adopt(struct collection *c, int number, const struct rank_watch *watch)
{
    struct tune_result *result = calloc(1, sizeof *result);
    struct error why = {.message = ""};
    const struct journal_end *end = &watch->reading.end;
    attune_status status = result != NULL ? ATTUNE_OK : error_no_memory(&why);
    if (status == ATTUNE_OK && end->winner[0] == '\0') {
        status = error_set(&why, ATTUNE_DEVICE_FAILED,
                           "rank %d found no usable candidate: `attune cache journals` tells why, of run %.12s",
                           watch->rank, watch->run);
    }
    if (status == ATTUNE_OK) {
        status = find_record(c, number, watch->reading.begin.fingerprint, &result->record, &why);
    }
    if (status == ATTUNE_OK) {
        status = take_outcomes(&watch->reading, result, &why);
    }
    if (status == ATTUNE_OK) {
        result->listed = watch->reading.begin.candidates;
        result->strategy = end->strategy;
        result->counts.looks = end->looks;
        result->counts.elapsed_seconds = end->seconds;
        result->ending = end->complete ? TUNE_COMPLETE : TUNE_UNKNOWN;
        result->adopted = true;
        result->kept = true;
        snprintf(result->run, sizeof result->run, "%s", watch->run);
        store_journal_path(c->work->store, watch->run, result->journal, sizeof result->journal, NULL);
        result->operations = count_operations(c, number);
        set_row(c, number, result, false, watch->rank, c->turns[number]);
    } else {
        fail(c, number, &why);
    }
    if (result != NULL) {
        tune_result_free(result);
    }
    free(result);
}

/* who should have tuned it, as far as its journal tells */
static void say_taken_over(const struct collection *c, int number, const struct rank_watch *watch, int turn)
{
    char name[PROBLEM_NAME_BYTES];
    fprintf(stderr, "attune tune: %s: %srank %d %s; this rank tunes it\n", name_of(c, number, name),
            turn > 0 ? "who took it over from " : "", watch->rank,
            watch->state == RANK_LOST ? "is gone in the middle of it"
                                      : "left no journal of it (it is gone, or has another list of problems)");
}

/* Nobody will end this turn: the next one is ours if nobody else has taken it. */
static void take_over(struct collection *c, int number, const struct rank_watch *watch)
{
    const struct problem *problem = &c->problems->items[number].problem;
    const int turn = ++c->turns[number];
    struct tune_share share = {.ranks = &c->team->ranks, .rank = watch->rank, .turn = turn, .claimed = true};
    struct tune_options settings = *c->work->settings;
    struct tune_result *result = calloc(1, sizeof *result);
    struct error why = {.message = ""};
    bool ours = false;
    attune_status status =
        result != NULL ? tune_claim(c->work->store, problem, &share, &ours, &why) : error_no_memory(&why);
    if (status == ATTUNE_OK && ours) {
        settings.share = &share;
        settings.resume = false; /* the turn's journal is new */
        settings.name =
            c->work->named && c->problems->items[number].name[0] != '\0' ? c->problems->items[number].name : NULL;
        say_taken_over(c, number, watch, turn - 1);
        status =
            tune_run(c->work->generator, c->work->pool, c->work->store, problem, &settings, NULL, NULL, result, &why);
    }
    if (status != ATTUNE_OK) {
        fail(c, number, &why);
    } else if (ours) {
        set_row(c, number, result, true, watch->rank, turn);
        tune_result_free(result);
    }
    free(result);
}

/* Waits for the turn of a problem that is at hand. *dead: the owner is known to be, and what it has not begun it will
 * not. */
static void settle(struct collection *c, int number, int owner, bool *dead)
{
    int turn = c->turns[number];
    struct ranks_patience patience = c->team->ranks.patience;
    struct rank_watch watch;
    char text[PROBLEM_TEXT_BYTES], name[PROBLEM_NAME_BYTES];
    struct error why = {.message = ""};
    if (problem_format(&c->problems->items[number].problem, text, &why) != ATTUNE_OK) {
        fail(c, number, &why);
        return;
    }
    while (rank_is_at_work(&c->team->ranks, c->work->store, text, owner, turn + 1)) {
        c->turns[number] = ++turn; /* others gave this one up */
    }
    if (turn == 0 && *dead) {
        patience.begin = patience.silence = -1.0;
    }
    rank_watch_begin(&watch, &c->team->ranks, text, owner, turn);
    rank_watch_look(&watch, c->work->store, &patience, NULL);
    if (watch.state == RANK_AWAITED) {
        fprintf(stderr, "attune tune: %s: waits for %srank %d\n", name_of(c, number, name),
                turn > 0 ? "who took it over from " : "", owner);
    }
    rank_watch_all(&watch, 1, c->work->store, &patience, NULL, c->work->settings->stop);
    if (watch.state == RANK_ANSWERED) {
        adopt(c, number, &watch);
    } else if (watch.state != RANK_AWAITED && !is_stopped(c)) {
        *dead |= turn == 0;
        if (c->work->take_over) {
            take_over(c, number, &watch);
        } else {
            c->turns[number] = -1;
            c->not_begun++;
        }
    }
    rank_watch_free(&watch);
}

/* tuned by others, and not settled yet */
static bool is_others(const struct collection *c, int number)
{
    return !c->team->left_out[number] && !c->team->ours[number] && c->turns[number] >= 0;
}

attune_status tune_team_collect(struct tune_team *team, const struct tune_work *work,
                                const struct problem_list *problems, json_t **rows, struct failures *failures,
                                int *not_begun, struct error *error)
{
    struct collection c = {.team = team, .work = work, .problems = problems, .rows = rows, .failures = failures};
    if (!is_team(team) || team->share.divided) {
        return ATTUNE_OK;
    }
    c.turns = calloc((size_t)problems->count + 1, sizeof *c.turns);
    if (c.turns == NULL) {
        return error_no_memory(error);
    }
    /* Rank by rank, each in its own order: what it has not begun when its last one is done, it will not begin. */
    for (int step = 1; step <= team->ranks.size && !is_stopped(&c); step++) {
        const int owner = (team->ranks.rank + step) % team->ranks.size;
        bool dead = false;
        for (int i = 0; i < problems->count && !is_stopped(&c); i++) {
            if (is_others(&c, i) && ranks_owner_of_problem(&team->ranks, i) == owner) {
                settle(&c, i, owner, &dead);
            }
        }
    }
    /* those whose take-over others began, after ours */
    int left;
    do {
        left = 0;
        for (int i = 0; i < problems->count && !is_stopped(&c); i++) {
            bool dead = false;
            if (is_others(&c, i)) {
                settle(&c, i, ranks_owner_of_problem(&team->ranks, i), &dead);
                left += c.turns[i] >= 0;
            }
        }
    } while (left > 0 && !is_stopped(&c));
    left = 0;
    for (int i = 0; i < problems->count; i++) {
        left += is_others(&c, i);
    }
    free(c.turns);
    *not_begun = c.not_begun;
    return left == 0 ? ATTUNE_OK
                     : error_set(error, ATTUNE_TIMEOUT,
                                 "interrupted: %d of %d problems are other ranks', which had not ended", left,
                                 problems->count);
}
