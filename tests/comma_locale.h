/* comma_locale.h - a locale with a decimal comma for tests: an installed one, else one that localedef makes in the
 * build folder where glibc's locale sources are installed (package locales). */
#ifndef TESTS_COMMA_LOCALE_H
#define TESTS_COMMA_LOCALE_H

#include "base/files.h"
#include "base/process.h"

#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* sets LC_ALL; false when there is none. Leave with setlocale(LC_ALL, "C"). */
static inline bool comma_locale_enter(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (setlocale(LC_ALL, names[i]) != NULL) {
            return true;
        }
    }
    char folder[4096], path[4200]; /* of this process: tests run side by side */
    snprintf(folder, sizeof folder, "%s/locale-%d", TEST_BINARY_DIR, getpid());
    snprintf(path, sizeof path, "%s/de_DE.UTF-8", folder);
    const char *const argv[] = {"localedef", "-i", "de_DE", "-f", "UTF-8", path, NULL};
    const struct process_options options = {.argv = argv, .seconds = 60};
    struct process_result result = {.output = BUFFER_INIT, .errors = BUFFER_INIT};
    if (folder_make(folder, NULL) == ATTUNE_OK) {
        (void)process_run(&options, &result, NULL);
    }
    process_result_free(&result);
    setenv("LOCPATH", folder, 1);
    bool set = setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
    folder_remove(folder); /* glibc has read it */
    if (!set) {
        printf("skipped: no locale with a decimal comma is installed, and localedef cannot make de_DE.UTF-8\n");
    }
    return set;
}

#endif
