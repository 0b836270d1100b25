/* replay.c - a fuzzer without libFuzzer: every file of the folders named is one input. What a corpus holds is checked
 * by any compiler and sanitizer, every time; a reproducer is tried by naming its file. */
#include "base/buffer.h"
#include "base/files.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <sys/stat.h>

enum { INPUT_BYTES_MAX = 1 << 24 };

static void replay_file(const char *path)
{
    struct buffer bytes = BUFFER_INIT;
    struct error error = {.message = ""};
    if (file_read(path, INPUT_BYTES_MAX, &bytes, &error) != ATTUNE_OK) {
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    fprintf(stderr, "%s\n", path); /* the last one named is the one that broke */
    LLVMFuzzerTestOneInput((const uint8_t *)buffer_string(&bytes), bytes.length);
    buffer_free(&bytes);
}

static int replay_folder(const char *folder)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort), done = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        if (entries[i]->d_name[0] != '.' &&
            path_join(path, sizeof path, folder, entries[i]->d_name, NULL) == ATTUNE_OK) {
            replay_file(path);
            done++;
        }
        free(entries[i]);
    }
    free(entries);
    return done;
}

int main(int argc, char **argv)
{
    int done = 0;
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        if (stat(argv[i], &facts) == 0 && S_ISDIR(facts.st_mode)) {
            done += replay_folder(argv[i]);
        } else {
            replay_file(argv[i]);
            done++;
        }
    }
    printf("%d inputs\n", done);
    return done > 0 ? 0 : 1; /* a corpus that is not there shows nothing */
}
