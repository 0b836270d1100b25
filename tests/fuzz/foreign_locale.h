/* foreign_locale.h - parsers of numbers are tried in a process whose numbers have commas, where there is such a locale:
 * what they read and write must not depend on it. */
#ifndef TESTS_FUZZ_FOREIGN_LOCALE_H
#define TESTS_FUZZ_FOREIGN_LOCALE_H

#include "tests/comma_locale.h"

static inline void fuzz_foreign_locale(void)
{
    static bool tried;
    if (!tried) {
        tried = true;
        (void)comma_locale_enter();
    }
}

#endif
