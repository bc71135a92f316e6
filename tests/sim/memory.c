/*
 * memory.c - allocations: they take no time, and may fail
 *
 * Large blocks are maps of their own, zeroes until they are written to: what fills them with zeroes
 * first thing need not touch their pages, which would cost more time than all else. What a process
 * leaves at its end stays, apart from these.
 */
#include "tests/sim/faults.h"
#include "tests/sim/files.h"
#include "tests/sim/world.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { LARGE = 1 << 20, PAGE = 4096, PAGES_MAX = 1 << 16 };

static bool
refused(void)
{
	sim.current->process->calls[CALL_MEMORY]++;
	if (!faults_at(CALL_MEMORY, NULL))
		return false;
	errno = ENOMEM;
	return true;
}

/* The block that begins at, or holds, an address; NULL: none of this process does. */
static struct block *
block_of(const void *p, bool begins)
{
	struct block *b = sim.current->process->block;

	if (begins && (uintptr_t)p % PAGE)
		return NULL;
	for (int i = 0; p && i < BLOCKS; i++)
		if (b[i].at &&
		    (begins ? p == b[i].at
			    : (const char *)p >= b[i].at && (const char *)p < b[i].at + b[i].bytes))
			return &b[i];
	return NULL;
}

/* Zeroes; NULL: there is no place left in the table, or no memory. */
void *
block_new(size_t n)
{
	struct block *b = sim.current->process->block;
	void *p;

	for (int i = 0; i < BLOCKS; i++) {
		if (b[i].at)
			continue;
		p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return NULL;
		b[i] = (struct block){ p, n };
		return p;
	}
	return NULL;
}

static void
block_free(struct block *b)
{
	munmap(b->at, b->bytes);
	b->at = NULL;
}

bool
block_end(void *p)
{
	struct block *b = block_of(p, true);

	if (b)
		block_free(b);
	return b != NULL;
}

void
memory_end(struct process *p)
{
	for (int i = 0; i < BLOCKS; i++)
		if (p->block[i].at)
			block_free(&p->block[i]);
}

/* Whether no page of it was ever touched, so that all of it is zeroes. */
static bool
untouched(void *p, size_t n)
{
	static unsigned char resident[PAGES_MAX];
	size_t pages = (n + PAGE - 1) / PAGE;

	if (pages > PAGES_MAX || (uintptr_t)p % PAGE || mincore(p, n, resident) < 0)
		return false;
	return !memchr(resident, 1, pages);
}

void *
sim_memset(void *p, int byte, size_t n)
{
	if (n >= LARGE && byte == 0 && block_of(p, false) && untouched(p, n))
		return p;
	return memset(p, byte, n);
}

void
sim_free(void *p)
{
	if (!block_end(p))
		free(p);
}

void *
sim_malloc(size_t n)
{
	void *p = NULL;

	if (refused())
		return NULL;
	if (n >= LARGE)
		p = block_new(n);
	return p ? p : malloc(n);
}

void *
sim_calloc(size_t n, size_t size)
{
	size_t all;
	void *p = NULL;

	if (refused())
		return NULL;
	if (!__builtin_mul_overflow(n, size, &all) && all >= LARGE)
		p = block_new(all);
	return p ? p : calloc(n, size);
}

void *
sim_realloc(void *p, size_t n)
{
	struct block *b = block_of(p, true);
	void *q;

	if (refused())
		return NULL;
	if (!b)
		return realloc(p, n);
	q = malloc(n);
	if (!q)
		return NULL;
	memcpy(q, p, n < b->bytes ? n : b->bytes);
	block_free(b);
	return q;
}

/* A map begins at a page. */
void *
sim_aligned_alloc(size_t a, size_t n)
{
	void *p = NULL;

	if (refused())
		return NULL;
	if (n >= LARGE && a <= PAGE)
		p = block_new(n);
	return p ? p : aligned_alloc(a, n);
}

int
sim_posix_memalign(void **p, size_t a, size_t n)
{
	if (refused())
		return ENOMEM;
	*p = n >= LARGE && a <= PAGE ? block_new(n) : NULL;
	return *p ? 0 : posix_memalign(p, a, n);
}
