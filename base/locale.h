/* locale.h - the C locale for the calling thread, whatever the process's: numbers in generated text and JSON have
 * points. */
#ifndef BASE_LOCALE_H
#define BASE_LOCALE_H

#include <locale.h>

/* uselocale() to the C locale; pass the result to locale_leave. Thread-safe, nests. */
locale_t locale_enter(void);
void locale_leave(locale_t previous);

#endif
