/* state.c - the product's writable data, and what sanitizers and valgrind must know of coroutines
 */
#include "tests/sim/state.h"

#include <string.h>
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

extern char __start_sim_state[], __stop_sim_state[];

/* Of the address sanitizer, when it is linked. */
void __sanitizer_start_switch_fiber(void **save, const void *bottom, size_t size)
    __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *save, const void **bottom, size_t *size)
    __attribute__((weak));
void __asan_unpoison_memory_region(const void *at, size_t size) __attribute__((weak));

/* Ranks that are killed leave their memory. */
const char *__asan_default_options(void);
const char *
__asan_default_options(void)
{
	return "detect_leaks=0";
}

char *
state_begin(void)
{
	return __start_sim_state;
}

size_t
state_bytes(void)
{
	return (size_t)(__stop_sim_state - __start_sim_state);
}

/* With the sanitizer by volatile words, lest the loop becomes a call of memcpy. Both addresses are
 * multiples of 8. */
__attribute__((no_sanitize("address"))) void
memcpy_plain(void *to, const void *from, size_t n)
{
#ifdef __SANITIZE_ADDRESS__
	volatile uint64_t *d = to;
	const uint64_t *s = from;
	size_t words = n / sizeof *s;

	for (size_t i = 0; i < words; i++)
		d[i] = s[i];
	for (size_t i = words * sizeof *s; i < n; i++)
		((volatile char *)to)[i] = ((const char *)from)[i];
#else
	memcpy(to, from, n);
#endif
}

void
stack_known(void *stack, size_t bytes)
{
#ifdef VALGRIND_STACK_REGISTER
	VALGRIND_STACK_REGISTER(stack, (char *)stack + bytes);
#else
	(void)stack;
	(void)bytes;
#endif
}

void
stack_unpoison(void *stack, size_t bytes)
{
	if (__asan_unpoison_memory_region)
		__asan_unpoison_memory_region(stack, bytes);
}

/* Of the root nothing is known: bytes 0. */
static const void *root_bottom;
static size_t root_size;

void
fiber_leave(struct thread *from, struct thread *to, size_t bytes)
{
	bool root = to == sim.root;

	if (__sanitizer_start_switch_fiber)
		__sanitizer_start_switch_fiber(from->ended ? NULL : &from->fiber,
		    root ? root_bottom : (const char *)to->stack, root ? root_size : bytes);
}

void
fiber_entered(struct thread *t)
{
	const void *bottom;
	size_t size;

	if (!__sanitizer_finish_switch_fiber)
		return;
	__sanitizer_finish_switch_fiber(t->fiber, &bottom, &size);
	if (!root_bottom) {
		root_bottom = bottom;
		root_size = size;
	}
}
