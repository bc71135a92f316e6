/*
 * mem.c - checked allocation, and a bump allocator over it
 *
 * Callers never see NULL: running out of memory is the one failure that ends the program from
 * anywhere, which saves thousands of checks. Counts and sizes are separate arguments, so that their
 * product is checked here and not in each caller.
 */
#include "lib/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.14; the C library names it since 2.35. On systems without it, pages come by faults. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16, HUGE_PAGE = 2 * 1024 * 1024, MANY_PAGES = 256 * 1024 };

/* Blocks are chained, newest first; only the newest one still has room for items. */
struct mem_block {
	struct mem_block *next;
	size_t used, size;
	_Alignas(ALIGN) unsigned char data[];
};

/* The only exit below the programs: a caller could not report it without memory. Exit handlers of
 * libraries are left out, which may need some. */
void
mem_none(const char *what)
{
	fprintf(
	    stderr, "%s: out of memory: cannot allocate %s\n", program_invocation_short_name, what);
	fflush(stdout);
	_exit(1);
}

static void
no_memory(size_t count, size_t size)
{
	char what[64];

	snprintf(what, sizeof what, "%zu x %zu bytes", count, size);
	mem_none(what);
}

/*
 * A request of 0 bytes gives a pointer too: some C libraries would return NULL.
 */
void *
mem_alloc(size_t count, size_t size)
{
	size_t n = count * size;
	void *p;

	if (size && count > SIZE_MAX / size)
		no_memory(count, size);
	p = malloc(n ? n : 1);
	if (!p)
		no_memory(count, size);
	return p;
}

/* calloc checks the product itself and gets zeroed pages from the kernel for free. */
void *
mem_zalloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size ? size : 1);

	if (!p)
		no_memory(count, size);
	return p;
}

/* Advice about the whole pages of a given size within a block; a system that does not support it is
 * not a failure. */
static void
advise(unsigned char *p, size_t bytes, size_t page, int advice)
{
	uintptr_t from = ((uintptr_t)p + page - 1) & ~(uintptr_t)(page - 1),
		  to = ((uintptr_t)p + bytes) & ~(uintptr_t)(page - 1);

	if (from < to)
		(void)madvise(p + (from - (uintptr_t)p), to - from, advice);
}

/* Asks for huge pages where whole ones fit, which saves page faults now and TLB misses later. */
void *
mem_zalloc_large(size_t count, size_t size)
{
	void *p = mem_zalloc(count, size);

	advise(p, count * size, HUGE_PAGE, MADV_HUGEPAGE);
	return p;
}

/* All pages in one call, at a fraction of the cost of a fault for each. */
void *
mem_zalloc_whole(size_t count, size_t size)
{
	void *p = mem_zalloc_large(count, size);

	if (count * size >= MANY_PAGES)
		advise(p, count * size, (size_t)sysconf(_SC_PAGESIZE), MADV_POPULATE_WRITE);
	return p;
}

/*
 * p may be NULL. The old bytes are kept up to the smaller of both sizes; the new ones are not set.
 */
void *
mem_realloc(void *p, size_t count, size_t size)
{
	size_t n = count * size;

	if (size && count > SIZE_MAX / size)
		no_memory(count, size);
	p = realloc(p, n ? n : 1);
	if (!p)
		no_memory(count, size);
	return p;
}

/* Copies exactly n bytes, NULs included, and appends a NUL. */
char *
mem_strndup(const char *s, size_t n)
{
	char *p = mem_alloc(n + 1, 1);

	memcpy(p, s, n);
	p[n] = '\0';
	return p;
}

char *
mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

/*
 * *out is the wrapped product on overflow and must not be used.
 */
int
mem_mul(uint64_t a, uint64_t b, uint64_t *out)
{
	return __builtin_mul_overflow(a, b, out) ? -1 : 0;
}

/* A block of which `used` bytes are handed out. Large blocks come zeroed from the system. */
static struct mem_block *
block_new(struct mem_pool *pool, size_t size, size_t used)
{
	struct mem_block *b =
	    used ? mem_zalloc_whole(1, sizeof *b + size) : mem_alloc(1, sizeof *b + size);

	b->next = pool->block;
	b->used = used;
	b->size = size;
	return pool->block = b;
}

/*
 * Half of SIZE_MAX is the bound, so that rounding up and the head of the block cannot overflow. The
 * rest of a block is lost when the next one begins.
 */
void *
mem_pool_alloc(struct mem_pool *pool, size_t count, size_t size)
{
	struct mem_block *b = pool->block;
	size_t n;
	void *p;

	if ((size && count > SIZE_MAX / 2 / size))
		no_memory(count, size);
	n = (count * size + ALIGN - 1) / ALIGN * ALIGN;
	if (n > BLOCK_BYTES)
		return block_new(pool, n, n)->data;
	if (!b || b->size - b->used < n)
		b = block_new(pool, BLOCK_BYTES, 0);
	p = b->data + b->used;
	b->used += n;
	return memset(p, 0, n);
}

/* The terminator is already there, because the pool's memory is zeroed. */
char *
mem_pool_strndup(struct mem_pool *pool, const char *s, size_t n)
{
	char *p = mem_pool_alloc(pool, n + 1, 1);

	return memcpy(p, s, n);
}

/* Leaves an empty pool that may be used again. */
void
mem_pool_release(struct mem_pool *pool)
{
	while (pool->block) {
		struct mem_block *next = pool->block->next;

		free(pool->block);
		pool->block = next;
	}
}
