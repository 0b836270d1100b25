/* kfd_check.h - holds what a driver says of AMD GPUs against what the kernel says, and explains the difference. */
#ifndef CLI_KFD_CHECK_H
#define CLI_KFD_CHECK_H

#include "cli/kfd.h"
#include "generator/generator.h"

#include <jansson.h>

/* `drivers` is survey_drivers' answer; `override` the value of HSA_OVERRIDE_GFX_VERSION, NULL unset; `hidden` whether a
 * variable hides devices. Returns {"nodes":[{"node","processor","pci","compute_units","wave_size","lds_bytes"}],
 * "unreadable", "findings":[{"verdict","device","node","driver","kernel","text"}]}; verdicts:
 *   agrees     the driver names the kernel's processor, and its numbers
 *   same_isa   another of one set that runs one another's code (gfx1030 for gfx1032): legitimate
 *   related    another of the same major version: code of another processor, which may run or not
 *   foreign    another ISA: nothing that it runs can be right
 *   differs    the same processor with other numbers
 *   unseen     the kernel has it, the driver does not list it
 *   unmatched  the driver lists it, which of the kernel's it is cannot be told
 *   override   the variable itself: no version, or without effect
 * The texts say what it means and what to do. New reference. */
json_t *kfd_check(struct generator *generator, const json_t *drivers, const struct kfd_topology *topology,
                  const char *override, bool hidden);

/* for people: a line a finding */
void print_kfd(const json_t *kfd);

#endif
