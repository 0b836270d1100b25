/* measurer_protocol.h - what a remote measurer and the measuring program say to each other: the frames of
 * generator/compiler_protocol.h with kinds and keys of their own.
 *
 * The program says HELLO once. Every request has one REPLY; before it come any number of STEPs, each of which says what
 * the program does from now on and whether that is in the candidate's hands: the watchdog's limit is for those alone.
 * Objects cross as their bytes and the launch descriptor's JSON.
 */
#ifndef AUTOTUNE_MEASURER_PROTOCOL_H
#define AUTOTUNE_MEASURER_PROTOCOL_H

#include "autotune/kernel.h"
#include "autotune/measurer.h"
#include "generator/compiler_protocol.h"

enum measure_kind {
    MEASURE_HELLO = 101,
    MEASURE_OPEN,   /* device, problem, templates, seed, timing, companions -> facts */
    MEASURE_BEGIN,  /* reference, compare (both or neither) */
    MEASURE_CHECK,  /* object, schedule, companions, number: patience -> verdict */
    MEASURE_LOOK,   /* slot, object, number: give up -> number: microseconds */
    MEASURE_DROP,   /* slot */
    MEASURE_WARM,   /* slot, number: milliseconds */
    MEASURE_SAMPLE, /* slot -> number: microseconds */
    MEASURE_STEP,   /* text, candidate */
    MEASURE_REPLY   /* status, text, lost and what the request's line says */
};

enum measure_key {
    MEASURE_KEY_STATUS = 101,
    MEASURE_KEY_TEXT,
    MEASURE_KEY_LOST, /* integer: the device no longer answers */
    MEASURE_KEY_DEVICE,
    MEASURE_KEY_PROBLEM,
    MEASURE_KEY_TEMPLATES,
    MEASURE_KEY_SEED,
    MEASURE_KEY_TIMING,
    MEASURE_KEY_COMPANIONS,
    MEASURE_KEY_FLUSHES,
    MEASURE_KEY_FACTS,         /* struct measurer_facts as it is: both sides are of one build */
    MEASURE_KEY_OBJECT,        /* followed by its launch */
    MEASURE_KEY_OBJECT_LAUNCH, /* = MEASURE_KEY_OBJECT + 1, and so on */
    MEASURE_KEY_REFERENCE,
    MEASURE_KEY_REFERENCE_LAUNCH,
    MEASURE_KEY_COMPARE,
    MEASURE_KEY_COMPARE_LAUNCH,
    MEASURE_KEY_SCHEDULE,
    MEASURE_KEY_SLOT,
    MEASURE_KEY_NUMBER,
    MEASURE_KEY_CANDIDATE,
    MEASURE_KEY_RIGHT,
    MEASURE_KEY_TOO_SLOW,
    MEASURE_KEY_INPUTS,
    MEASURE_KEY_RATIO,
    MEASURE_KEY_CALLS,
    MEASURE_KEY_COMPANION_CALLS
};

void measure_add_number(struct buffer *frame, uint32_t key, double number);
double measure_number(const struct message *message, uint32_t key); /* 0 when absent */

attune_status measure_add_object(struct buffer *frame, uint32_t key, const struct kernel_object *object,
                                 struct error *error);
/* the bytes stay the message's; the launch is read into `launch`. ATTUNE_CORRUPT when either is missing or wrong */
attune_status measure_object(const struct message *message, uint32_t key, struct launch *launch,
                             struct kernel_object *object, struct error *error);

/* What a reply says of its request. The program that wrote it runs candidates, which may have written into it: a status
 * that is none of ours is ATTUNE_CORRUPT, a refusal always has a text. */
attune_status measure_status(const struct message *reply, struct error *error);
/* ATTUNE_UNSUPPORTED for another build's, ATTUNE_CORRUPT for what no device can be */
attune_status measure_facts(const struct message *reply, struct measurer_facts *facts, struct error *error);

#endif
