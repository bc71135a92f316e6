/*
 * memory_limit.h - a bound on the memory that a test may take from now on
 *
 * By the address space, which counts what is reserved and never touched, too. A program that goes
 * beyond it ends.
 */
#ifndef TESTS_MEMORY_LIMIT_H
#define TESTS_MEMORY_LIMIT_H

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

/* Allows so many bytes more than the process has now; returns the old limit. Sanitizers reserve
 * terabytes, so nothing is bounded under them. */
static inline struct rlimit
memory_limit(rlim_t bytes)
{
	FILE *f = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	struct rlimit old, now;

	getrlimit(RLIMIT_AS, &old);
	now = old;
	if (f && fscanf(f, "%lu", &pages) == 1 && pages < 1UL << 28) {
		now.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes;
		setrlimit(RLIMIT_AS, &now);
	}
	if (f)
		fclose(f);
	return old;
}

static inline void
memory_restore(struct rlimit old)
{
	setrlimit(RLIMIT_AS, &old);
}

#endif
