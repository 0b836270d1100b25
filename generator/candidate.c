/* candidate.c - the written form of a candidate: `family/template k=v ...`, and its short id. */
#include "base/digest.h"
#include "generator/generator.h"

#include <stdio.h>
#include <string.h>

void candidate_format(const struct candidate *candidate, char text[CANDIDATE_TEXT_BYTES])
{
    int used = snprintf(text, CANDIDATE_TEXT_BYTES, "%s/%s", candidate->family, candidate->template_name);
    for (int i = 0; i < candidate->parameter_count && used < CANDIDATE_TEXT_BYTES; i++) {
        used += snprintf(text + used, (size_t)(CANDIDATE_TEXT_BYTES - used), " %s=%s", candidate->parameters[i].name,
                         candidate->parameters[i].value);
    }
}

void candidate_id(const struct candidate *candidate, char id[CANDIDATE_ID_BYTES])
{
    char text[CANDIDATE_TEXT_BYTES];
    candidate_format(candidate, text);
    digest_short(text, id);
}
