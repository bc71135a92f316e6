/*
 * allocated.h - what other training programs allocate on a device
 *
 * The peak of the allocator of Megatron-LM and of programs that keep the same arrays: weights,
 * gradients and states of a rank, what layers save for the backward pass, logits, and arrays that
 * stay after a backward pass. What this program allocates is lib/model/memory.h. Source:
 * docs/planning.md 1.1; Korthikanti et al. 2022, arXiv:2205.05198, 4.1.
 */
#ifndef PLAN_ALLOCATED_H
#define PLAN_ALLOCATED_H

#include "lib/model/hardware.h"
#include "lib/model/memory.h"
#include "lib/model/options.h"

/* Bytes of the fullest rank, by the program whose constants the device has. */
double allocated_bytes(const struct run_plan *p, const struct hardware *hw);
/* The same with the stages of its layout. */
double allocated_with(const struct run_plan *p, const struct hardware *hw, struct memory_stages *x);
/* Those that its allocator takes from the device for them. */
double allocated_reserved(const struct run_plan *p, double bytes);
/* Whether a device has the constants of another program: of one in stacks.h. */
bool allocated_elsewhere(const struct hardware *hw);

#endif
