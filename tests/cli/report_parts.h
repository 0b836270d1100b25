/* report_parts.h - stores and pages for the tests of `attune cache report`. */
#ifndef TESTS_CLI_REPORT_PARTS_H
#define TESTS_CLI_REPORT_PARTS_H

#include "fake_store.h"
#include "program.h"

#define SMALL "attention.forward dtype=f16 heads=2 seqlen_q=64 head_dim=64"
#define RUN "0123456789abcdef0123456789abcdef"

struct store *open_store(const char *folder);
/* of SMALL, RUN, with times */
struct fake_run a_run(void);
void one_run(const char *folder, const struct fake_run *run);
/* the store's page; fails where there is none */
void report_page(const char *store, const char *page);
/* with the texts that must stand there; NULL ends them. False without Python */
bool page_is_whole(const char *page, const char *const *texts);
/* a file's; free() */
char *bytes_of(const char *path);

#endif
