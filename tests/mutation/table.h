/* table.h - the table of planted mistakes (mutants.lua), asked for one candidate's mutants at a time. */
#ifndef TESTS_MUTATION_TABLE_H
#define TESTS_MUTATION_TABLE_H

#include "base/problem.h"
#include "generator/generator.h"

struct mutant {
    char kind[48], name[128], says[160];
    char equivalent[320]; /* why it cannot be seen; "" when it must be */
    char *text;           /* NULL: stale, the mistake's place is not in the candidate's text */
    bool free;            /* may pass: these lengths do not show it, and the candidate serves no others */
};

struct mutants {
    struct mutant *items;
    int count;
};

struct table;
struct table *table_open(const char *path); /* a broken table ends the test */
void table_close(struct table *table);

/* `text`: what the compiler would get */
struct mutants table_plan(struct table *table, const char *text, const struct candidate *candidate,
                          const struct problem *problem);
void mutants_free(struct mutants *mutants);

#endif
