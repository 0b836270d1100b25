/* isa.h - what a candidate's object is made of, for tests that hold templates to instructions, registers and LDS.
 *
 * Counts come from the object itself and its disassembly, never from the source. Patterns are mnemonics with `*` for
 * any text, as a disassembler writes them: "v_mfma_*", "ds_read_b128". Include after cmocka.h.
 */
#ifndef TESTS_TEMPLATES_ISA_H
#define TESTS_TEMPLATES_ISA_H

#include "generator/compiler.h"
#include "generator/generator.h"
#include "generator/issue.h"

struct isa {
    struct candidate candidate;
    struct launch launch;
    struct resources resources;
    struct issue_rates rates;
    struct issue_report *report;
    struct issue_occupancy occupancy;
    struct issue_bound bound;
    struct listing listing;
    struct buffer text;
    char compiler[64];
    bool bf16; /* the problem's elements, f16 else */
};

struct isa_tools {
    struct generator *generator;
    struct compiler_pool *pool;
    enum compiler_kind compiler; /* what isa_build compiles with; COMPILER_AUTO after isa_tools_open */
};
/* the embedded templates, two workers; group fixtures keep one and fail the group without */
bool isa_tools_open(struct isa_tools *tools);
void isa_tools_close(struct isa_tools *tools);

/* The candidate that `changes` ("" : the default) makes of a problem of attention.forward, compiled and read. False,
 * with the reason printed, where this machine has no compiler or disassembler for the target; any other failure fails
 * the test. Free with isa_free in both cases. */
bool isa_build(const struct isa_tools *tools, const char *problem, const char *target, const char *changes,
               struct isa *isa);
void isa_free(struct isa *isa);

/* a parameter's value in the candidate, "" when it has no such parameter */
const char *isa_value(const struct isa *isa, const char *parameter);

/* instructions that fit, in the text of the kernel, and between the hottest loop's first and last address */
int isa_count(const struct isa *isa, const char *pattern);
int isa_count_in_loop(const struct isa *isa, const char *pattern);

/* Instructions in the hottest loop, or in all the text where there is no loop, that fit a pattern whose `%` stands for
 * the type of the elements: "v_mfma_f32_*%*", "HMMA.16816.F32%*". For f16 those of bf16 are taken off. */
int isa_multiplies(const struct isa *isa, const char *pattern);

/* Holds what every default owes: no scratch and no flat access, LDS as the launch descriptor says, registers within
 * what the launch bound leaves, a hottest loop whose instructions all have published cycles. Fails the test with the
 * candidate's name and the number otherwise. */
void isa_holds_basics(const struct isa *isa, const char *target);

#endif
