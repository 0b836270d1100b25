/* locale.c - one C locale object for the process, made on first use and never freed. */
#include "base/locale.h"

#include <pthread.h>

static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the "C" locale needs no files: cannot fail but for memory */
}

locale_t locale_enter(void)
{
    pthread_once(&c_locale_once, make_c_locale);
    return uselocale(c_locale);
}

void locale_leave(locale_t previous)
{
    uselocale(previous);
}
