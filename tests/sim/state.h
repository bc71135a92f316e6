/*
 * state.h - the product's writable data, and what sanitizers must know of coroutines
 *
 * bundle.sh gathers the product's .data and .bss in the section sim_state: each simulated process
 * has its own copy.
 */
#ifndef SIM_STATE_H
#define SIM_STATE_H

#include "tests/sim/world.h"

char *state_begin(void);
size_t state_bytes(void);
/* As memcpy, unknown to sanitizers: there are redzones between variables. */
void memcpy_plain(void *to, const void *from, size_t n);

void stack_known(void *stack, size_t bytes);
void stack_unpoison(void *stack, size_t bytes);
/* Before a switch and after it, in the coroutine that was switched to. */
void fiber_leave(struct thread *from, struct thread *to, size_t bytes);
void fiber_entered(struct thread *t);

#endif
