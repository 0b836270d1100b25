/* ranges.h - a problem's text that stands for several: `seqlen_q=512..16384*2`, `seqlen_k=1000..2000+250`,
 * `batch=1,2,8`.
 *
 *   value = item ("," item)*
 *   item  = whole ".." whole ("*" factor | "+" step)    from the first number on, as long as it is not past the second
 *         | anything else                                itself: 2048, f16, 0.5
 *
 * Several fields with several values give the product, the first field's values changing slowest. Texts alone: whether
 * a field exists and its values are legal is problem_parse's to say.
 */
#ifndef CLI_RANGES_H
#define CLI_RANGES_H

#include "base/error.h"

#include <stdbool.h>

enum {
    RANGE_TEXT_BYTES = 4096,  /* of a text with ranges, with its NUL */
    RANGE_SUFFIX_BYTES = 256, /* "[seqlen_q=512,batch=1]", with its NUL */
    RANGE_FIELDS_MAX = 16
};

/* One problem of those that a text stands for; the suffix tells it from the others, "" without ranges. Another status
 * than ATTUNE_OK ends the visit. */
typedef attune_status (*range_visitor)(void *data, const char *text, const char *suffix, struct error *error);

/* ATTUNE_INVALID before the first visit for a range that is none, and for more than `limit` problems, with their
 * number.
 */
attune_status ranges_visit(const char *text, int limit, range_visitor visit, void *data, struct error *error);

/* ATTUNE_OK for a text that stands for one problem alone; else a refusal that names the first range */
attune_status ranges_refuse(const char *text, struct error *error);

#endif
