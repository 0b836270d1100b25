/* test_faults.c - launches in a simulator: the folder is what docs/simulator.md shows, the buffers come back, and
 * whatever a simulator does wrong is an error with its own words that leaves no folder behind. */
#include "kit.h"

#include "base/files.h"
#include "tests/size.h"

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DONE "\n: > \"$1/done\"\n"
#define UPPER "tr ab AB < \"$1/buffer-0.bin\" > \"$1/new\" && mv \"$1/new\" \"$1/buffer-0.bin\""

static bool holds(const char *memory, char value)
{
    for (int i = 0; i < KIT_BYTES; i++) {
        if (memory[i] != value) {
            return false;
        }
    }
    return true;
}

static void buffers_come_back_as_the_simulator_left_them(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    kit_simulate("changes one", UPPER DONE);
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    if (kit_run(&launch, &error) != ATTUNE_OK) {
        fail_msg("%s", error.message);
    }
    assert_true(holds(launch.buffers[0], 'A') && holds(launch.buffers[1], 'b'));
    assert_true(kit_left_nothing());
    kit_end(&launch);
}

/* the first ```json block of the page */
static json_t *example_of_the_page(void)
{
    struct buffer page = BUFFER_INIT;
    json_error_t problem;
    assert_int_equal(file_read(TEST_SOURCE_DIR "/docs/simulator.md", 1 << 20, &page, NULL), ATTUNE_OK);
    const char *start = strstr(buffer_string(&page), "```json\n");
    const char *end = start != NULL ? strstr(start + 8, "```") : NULL;
    assert_non_null(end);
    json_t *example = json_loadb(start + 8, (size_t)(end - start - 8), 0, &problem);
    if (example == NULL) {
        fail_msg("docs/simulator.md: line %d of its example: %s", problem.line, problem.text);
    }
    buffer_free(&page);
    return example;
}

static void folder_is_the_one_that_the_documentation_shows(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    struct buffer seen = BUFFER_INIT, object = kit_object("hiprtc-gfx906-v4.hsaco");
    json_error_t problem;
    setenv("SEEN", kit_path("seen"), 1);
    kit_simulate("copies", "cp -r \"$1\" \"$SEEN\"" DONE);
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    kit_point(&launch, 1, launch.buffers[1] + 16);
    kit_point(&launch, 2, NULL);
    memset(launch.arguments + 24, 7, 12);
    assert_int_equal(kit_run(&launch, &error), ATTUNE_OK);
    json_t *written = json_load_file(kit_path("seen/launch.json"), 0, &problem), *shown = example_of_the_page();
    assert_non_null(written);
    if (!json_equal(written, shown)) {
        char *text = json_dumps(written, JSON_INDENT(1));
        fail_msg("docs/simulator.md shows another launch.json than is written:\n%s", text);
    }
    assert_int_equal(kit_files(kit_path("seen")), 5);
    assert_int_equal(file_read(kit_path("seen/object.elf"), 1 << 20, &seen, NULL), ATTUNE_OK);
    assert_true(seen.length == object.length && memcmp(seen.data, object.data, seen.length) == 0);
    buffer_clear(&seen);
    assert_int_equal(file_read(kit_path("seen/arguments.bin"), 1 << 20, &seen, NULL), ATTUNE_OK);
    static const unsigned char nothing[24];
    assert_true(seen.length == KIT_ARGUMENT_BYTES && memcmp(seen.data, nothing, 24) == 0); /* pointers are zero */
    assert_memory_equal(seen.data + 24, launch.arguments + 24, 12);
    buffer_clear(&seen);
    assert_int_equal(file_read(kit_path("seen/buffer-1.bin"), 1 << 20, &seen, NULL), ATTUNE_OK);
    assert_true(seen.length == KIT_BYTES && holds(seen.data, 'b'));
    json_decref(written);
    json_decref(shown);
    buffer_free(&seen);
    buffer_free(&object);
    kit_end(&launch);
}

static void faults_of_a_simulator_are_told_in_its_own_words(void **state)
{
    (void)state;
    static const struct {
        const char *name, *script;
        const char *parts[3];
    } cases[] = {
        {"dies",
         "echo v_exp_f32 is unknown; echo about to die >&2; kill -9 $$",
         {"dies died by signal 9", "about to die"}},
        {"crashes", "kill -SEGV $$", {"died by signal 11", "printed nothing"}},
        {"fails", "echo no such instruction; exit 3", {"fails ended with exit code 3", "no such instruction"}},
        {"says nothing", "exit 7", {"says nothing ended with exit code 7; it printed nothing"}},
        {"does nothing", "exit 0", {"did not say that it ran the kernel", "an empty file done"}},
        {"shortens",
         "echo i saw it >&2; printf x > \"$1/buffer-1.bin\"" DONE,
         {"buffer-1.bin came back with 1 bytes instead of 64", "i saw it"}},
        {"lengthens", "echo more >> \"$1/buffer-0.bin\"" DONE, {"buffer-0.bin did not come back with its 64 bytes"}},
        {"removes", "rm \"$1/buffer-0.bin\"" DONE, {"buffer-0.bin did not come back"}},
        {"makes a folder", "rm \"$1/buffer-0.bin\"; mkdir \"$1/buffer-0.bin\"" DONE, {"buffer-0.bin did not come"}},
        {"removes all", "rm -r \"$1\"", {"did not say that it ran the kernel"}},
        /* why it stopped comes last in a long output, and first in the error */
        {"talks",
         "seq 200000; echo the last word; exit 1",
         {"exit code 1: the last word\nbefore that:\n199", "\n200000"}},
        {"raves", "printf '\\033[31mred\\001\\377 line\\n' >&2; exit 1", {"[31mred"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct kit_launch launch;
        struct error error = {0};
        kit_simulate(cases[i].name, cases[i].script);
        kit_begin(&launch, kit_driver(KIT_DEVICE));
        assert_int_equal(kit_run(&launch, &error), ATTUNE_DEVICE_FAILED);
        kit_says(&error, KIT_DEVICE ": ");
        for (int p = 0; p < 3 && cases[i].parts[p] != NULL; p++) {
            kit_says(&error, cases[i].parts[p]);
        }
        assert_true(strlen(error.message) < 3200);
        for (const unsigned char *at = (const unsigned char *)error.message; *at != '\0'; at++) {
            assert_true(*at >= ' ' || *at == '\n');
        }
        assert_true(holds(launch.buffers[0], 'a'));
        if (!kit_left_nothing()) {
            fail_msg("%s: a folder stayed", cases[i].name);
        }
        kit_end(&launch);
    }
}

static void last_line_of_a_short_report_comes_first(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    kit_simulate("reports", "printf 'pc 0x40\\npc 0x44\\nillegal instruction at 0x48\\n' >&2; exit 1");
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    assert_int_equal(kit_run(&launch, &error), ATTUNE_DEVICE_FAILED);
    kit_says(&error, "exit code 1: illegal instruction at 0x48\nbefore that:\npc 0x40\npc 0x44");
    kit_end(&launch);
}

/* killed; perhaps not yet collected by whoever inherited it */
static bool is_gone(pid_t process)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    for (int i = 0; i < 500; i++) {
        char line[256] = "";
        FILE *file = fopen(path, "r");
        size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
        if (file != NULL) {
            fclose(file);
        }
        if (length == 0 || strstr(line, ") Z") != NULL) {
            return true;
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    return false;
}

static void hanging_simulator_is_ended_with_all_that_it_started(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    struct buffer number = BUFFER_INIT;
    setenv("ATTUNE_SIMULATOR_SECONDS", "1", 1);
    setenv("SEEN", kit_path("child"), 1);
    kit_simulate("hangs", "sleep 1000 & echo $! > \"$SEEN\"; echo at work; wait");
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    assert_int_equal(kit_run(&launch, &error), ATTUNE_TIMEOUT);
    kit_says(&error, "hangs did not end within 1 seconds: at work");
    assert_int_equal(file_read(kit_path("child"), 100, &number, NULL), ATTUNE_OK);
    pid_t child = (pid_t)atoi(buffer_string(&number));
    assert_true(child > 1 && is_gone(child));
    assert_true(kit_left_nothing());
    unsetenv("ATTUNE_SIMULATOR_SECONDS");
    buffer_free(&number);
    kit_end(&launch);
}

static pid_t number_in(const char *path)
{
    struct buffer number = BUFFER_INIT;
    pid_t found = 0;
    for (int i = 0; i < 1000 && found == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        buffer_clear(&number);
        found = file_read(path, 100, &number, NULL) == ATTUNE_OK ? (pid_t)atoi(buffer_string(&number)) : 0;
    }
    buffer_free(&number);
    return found;
}

/* whatever ends us, also where nothing of ours can run any more: the simulator's own children and the folder go */
static void simulator_and_folder_end_with_us(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
    setenv("SEEN", kit_path("grandchild"), 1);
    kit_simulate("starts others", "sh -c 'echo $$ > \"$SEEN.new\"; mv \"$SEEN.new\" \"$SEEN\"; exec sleep 1000'" DONE);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        unlink(kit_path("grandchild"));
        pid_t child = fork();
        if (child == 0) {
            struct kit_launch launch;
            struct error error = {0};
            kit_begin(&launch, kit_driver(KIT_DEVICE));
            kit_run(&launch, &error);
            _exit(0);
        }
        pid_t grandchild = number_in(kit_path("grandchild"));
        assert_true(grandchild > 1);
        assert_int_equal(kit_files(kit_path("tmp dir")), 1);
        int fate;
        assert_int_equal(kill(child, signals[i]), 0);
        assert_int_equal(waitpid(child, &fate, 0), child);
        assert_true(WIFSIGNALED(fate) && WTERMSIG(fate) == signals[i]);
        assert_true(is_gone(grandchild));
        for (int wait = 0; wait < 500 && !kit_left_nothing(); wait++) {
            nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        }
        assert_true(kit_left_nothing());
    }
}

static void folder_that_was_replaced_by_a_link_goes(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    setenv("SEEN", kit_path("moved"), 1);
    kit_simulate("leaves a link", "mv \"$1\" \"$SEEN\" && ln -s \"$SEEN\" \"$1\"" DONE "rm -r \"$SEEN\"");
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    assert_int_equal(kit_run(&launch, &error), ATTUNE_DEVICE_FAILED);
    assert_true(kit_left_nothing());
    kit_end(&launch);
}

/* root is refused nothing, so that this is somebody else's launch then */
static void folder_that_was_closed_is_told_and_goes(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    int fate;
    kit_simulate("closes it",
                 "mkdir \"$1/within\"; : > \"$1/within/file\"; chmod 0 \"$1/within\"" DONE "chmod 0 \"$1\"");
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    kit_open_to_others(true);
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) {
            _exit(1);
        }
        attune_status status = kit_run(&launch, &error);
        fprintf(stderr, "%s\n", error.message);
        bool told = strstr(error.message, "file done cannot be looked for: the folder must stay ours") != NULL &&
                    strstr(error.message, "Permission denied") != NULL;
        _exit(status != ATTUNE_DEVICE_FAILED ? 2 : told ? 0 : 3);
    }
    assert_int_equal(waitpid(child, &fate, 0), child);
    kit_open_to_others(false);
    assert_true(WIFEXITED(fate));
    assert_int_equal(WEXITSTATUS(fate), 0);
    assert_true(kit_left_nothing());
    kit_end(&launch);
}

/* as a full disk does, a limit on files stops the writing half-way */
static void folder_that_cannot_be_written_is_an_error_and_goes(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    struct rlimit before, small;
    void *large;
    kit_simulate("is not reached", "exit 0" DONE);
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    assert_int_equal(launch.driver->allocate(launch.driver, 0, 1 << 20, &large, &error), ATTUNE_OK);
    kit_point(&launch, 2, large);
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 1 << 16, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    attune_status status = kit_run(&launch, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, ATTUNE_IO);
    kit_says(&error, "buffer-2.bin");
    assert_true(kit_left_nothing());
    launch.driver->release(launch.driver, 0, large, NULL);
    kit_end(&launch);
}

static void pointers_belong_to_live_memory(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    char outside[KIT_BYTES];
    void *gone;
    kit_simulate("changes one", UPPER DONE);
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    kit_point(&launch, 2, outside);
    assert_int_equal(kit_run(&launch, &error), ATTUNE_INVALID);
    kit_says(&error, "the pointer at byte 16 of the arguments");
    kit_says(&error, "not memory of this device");
    assert_int_equal(launch.driver->allocate(launch.driver, 0, KIT_BYTES, &gone, &error), ATTUNE_OK);
    assert_int_equal(launch.driver->release(launch.driver, 0, gone, &error), ATTUNE_OK);
    kit_point(&launch, 2, gone);
    assert_int_equal(kit_run(&launch, &error), ATTUNE_INVALID);
    assert_int_equal(launch.driver->release(launch.driver, 0, gone, &error), ATTUNE_INVALID);
    kit_point(&launch, 2, launch.buffers[1] + KIT_BYTES); /* just behind: still of that buffer */
    assert_int_equal(kit_run(&launch, &error), ATTUNE_OK);
    assert_true(kit_left_nothing());
    kit_end(&launch);
}

static void code_that_the_device_cannot_take_is_refused_when_loaded(void **state)
{
    (void)state;
    struct error error = {0};
    driver_module module;
    driver_function function;
    kit_simulate("is not reached", "exit 0" DONE);
    const struct driver *driver = kit_driver(KIT_DEVICE);
    struct buffer other = kit_object("clang-gfx1100-v5.hsaco"), own = kit_object("hiprtc-gfx906-v4.hsaco");
    assert_int_not_equal(
        driver->load(driver, 0, other.data, other.length, "attention_forward", 0, &module, &function, &error),
        ATTUNE_OK);
    kit_says(&error, "gfx1100");
    assert_int_equal(
        driver->load(driver, 0, own.data, own.length, "attention_forward", 64 << 10, &module, &function, &error),
        ATTUNE_INVALID);
    kit_says(&error, "66576 bytes of shared memory; simulated gfx906 has 65536");
    buffer_free(&other);
    /* features: code for one setting runs on the device with that setting */
    other = kit_object("clang-gfx906-v5.hsaco");
    driver = kit_driver("sim:gfx906:xnack-:sramecc+");
    assert_int_equal(
        driver->load(driver, 0, other.data, other.length, "attention_forward", 0, &module, &function, &error),
        ATTUNE_OK);
    driver->unload(driver, 0, module, NULL);
    driver = kit_driver("sim:gfx906:xnack+");
    assert_int_not_equal(
        driver->load(driver, 0, other.data, other.length, "attention_forward", 0, &module, &function, &error),
        ATTUNE_OK);
    buffer_free(&other);
    buffer_free(&own);
}

static void *launch_often(void *data)
{
    struct kit_launch *launch = data;
    struct error error;
    bool *right = malloc(sizeof *right);
    *right = true;
    for (int i = 0; i < test_size(5, 50) && *right; i++) {
        char before = *launch->buffers[0], after = (char)(before ^ 0x20);
        *right = kit_run(launch, &error) == ATTUNE_OK && holds(launch->buffers[0], after);
    }
    return right;
}

static void launches_of_two_threads_do_not_mix(void **state)
{
    (void)state;
    struct kit_launch launches[2];
    pthread_t threads[2];
    setenv("SEEN", kit_path("at work"), 1);
    kit_simulate("turns", "mkdir \"$SEEN\" || exit 5\n" /* one at a time */
                          "tr abAB ABab < \"$1/buffer-0.bin\" > \"$1/new\" && mv \"$1/new\" \"$1/buffer-0.bin\"\n"
                          "rmdir \"$SEEN\"" DONE);
    for (int i = 0; i < 2; i++) {
        kit_begin(&launches[i], kit_driver(i == 0 ? KIT_DEVICE : "sim:gfx906:xnack-"));
    }
    kit_end(&launches[1]);
    kit_begin(&launches[1], launches[0].driver); /* one driver for both */
    memset(launches[1].buffers[0], 'b', KIT_BYTES);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, launch_often, &launches[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        void *right;
        pthread_join(threads[i], &right);
        assert_true(*(bool *)right);
        free(right);
    }
    assert_true(kit_left_nothing());
    kit_end(&launches[0]);
    kit_end(&launches[1]);
}

static void folder_stays_where_that_is_asked_for(void **state)
{
    (void)state;
    struct kit_launch launch;
    struct error error = {0};
    setenv("ATTUNE_SIMULATOR_KEEP", "1", 1);
    kit_simulate("fails", "exit 1");
    kit_begin(&launch, kit_driver(KIT_DEVICE));
    assert_int_equal(kit_run(&launch, &error), ATTUNE_DEVICE_FAILED);
    assert_int_equal(kit_files(kit_path("tmp dir")), 1);
    folder_remove(kit_path("tmp dir"));
    assert_int_equal(folder_make(kit_path("tmp dir"), &error), ATTUNE_OK);
    unsetenv("ATTUNE_SIMULATOR_KEEP");
    kit_end(&launch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffers_come_back_as_the_simulator_left_them),
        cmocka_unit_test(folder_is_the_one_that_the_documentation_shows),
        cmocka_unit_test(faults_of_a_simulator_are_told_in_its_own_words),
        cmocka_unit_test(last_line_of_a_short_report_comes_first),
        cmocka_unit_test(hanging_simulator_is_ended_with_all_that_it_started),
        cmocka_unit_test(simulator_and_folder_end_with_us),
        cmocka_unit_test(folder_that_was_replaced_by_a_link_goes),
        cmocka_unit_test(folder_that_was_closed_is_told_and_goes),
        cmocka_unit_test(folder_that_cannot_be_written_is_an_error_and_goes),
        cmocka_unit_test(pointers_belong_to_live_memory),
        cmocka_unit_test(code_that_the_device_cannot_take_is_refused_when_loaded),
        cmocka_unit_test(launches_of_two_threads_do_not_mix),
        cmocka_unit_test(folder_stays_where_that_is_asked_for),
    };
    return cmocka_run_group_tests(tests, kit_set_up, kit_tear_down);
}
