/* fakes.c - see fakes.h. */
#include "tests/compiler/fakes.h"

#include "base/files.h"

#include <dirent.h>
#include <sys/stat.h>

char folder[1024];
static const char *const variables[] = {"ATTUNE_CXX", "ATTUNE_CLANG", "TMPDIR", "ATTUNE_HELPER"};
static char *saved[4];

const char *helper_path(void)
{
    return saved[3] != NULL ? saved[3] : TEST_BINARY_DIR "/generator/attune-helper";
}

void write_script(const char *name, const char *body, char path[4096])
{
    (void)snprintf(path, 4096, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    /* questions are answered by the real compiler, or by nobody */
    assert_true(fprintf(file,
                        "#!/bin/sh\n"
                        "for word in \"$@\"; do\n"
                        "  case \"$word\" in --version|-print-*) exec c++ \"$@\";; esac\n"
                        "  [ \"$last\" = -o ] && out=$word\n"
                        "  last=$word\n"
                        "done\n"
                        "%s\n",
                        body) > 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

attune_status compile_with(struct compiler_pool *pool, const char *source, struct error *error, struct buffer *log)
{
    struct compile_request request = request_for("host", source);
    struct compile_result result = {.seconds = 0};
    error->message[0] = '\0';
    attune_status status = compiler_compile(pool, &request, &result, error);
    if (log != NULL) {
        buffer_clear(log);
        buffer_append(log, buffer_string(&result.log), result.log.length);
    }
    compile_result_free(&result);
    return status;
}

int entries_in(const char *path, const char *prefix)
{
    int count = 0;
    DIR *stream = opendir(path);
    assert_non_null(stream);
    for (struct dirent *entry = readdir(stream); entry != NULL; entry = readdir(stream)) {
        count += entry->d_name[0] != '.' && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    (void)closedir(stream);
    return count;
}

int fakes_open(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i]);
        saved[i] = value != NULL ? strdup(value) : NULL;
    }
    return folder_temporary(folder, sizeof folder, NULL) == ATTUNE_OK ? 0 : 1;
}

int fakes_restore(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (saved[i] != NULL) {
            (void)setenv(variables[i], saved[i], 1);
        } else {
            (void)unsetenv(variables[i]);
        }
    }
    return 0;
}

int fakes_close(void **state)
{
    (void)state;
    folder_remove(folder);
    for (size_t i = 0; i < sizeof saved / sizeof saved[0]; i++) {
        free(saved[i]);
    }
    return 0;
}
