/*
 * mem.c - checked allocation, and a bump allocator over it
 *
 * Callers never see NULL: running out of memory is the one failure that ends the program from
 * anywhere, which keeps thousands of checks out of the code. Counts and sizes come separately, so
 * that their product is checked here and not in each caller.
 */
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Linux 5.14; the C library names it since 2.35. Where the system does not know it, pages come by
 * faults. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { BLOCK_BYTES = 64 * 1024, ALIGN = 16, HUGE_PAGE = 2 * 1024 * 1024, MANY_PAGES = 256 * 1024 };

/* Blocks are chained, newest first; only the newest one has room that is still used. */
struct mem_block {
	struct mem_block *next;
	size_t used, size;
	_Alignas(ALIGN) unsigned char data[];
};

/* The only exit below the programs: without memory there is nobody to report to. */
static void
no_memory(size_t count, size_t size)
{
	fprintf(stderr, "out of memory: cannot allocate %zu x %zu bytes\n", count, size);
	exit(1);
}

/*
 * A request of 0 bytes gives a pointer that may be freed, since some C libraries return NULL for
 * it.
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

/* Advice about the whole pages of a size within a block. That the system cannot take it is no
 * failure. */
static void
advise(unsigned char *p, size_t bytes, size_t page, int advice)
{
	uintptr_t from = ((uintptr_t)p + page - 1) & ~(uintptr_t)(page - 1),
		  to = ((uintptr_t)p + bytes) & ~(uintptr_t)(page - 1);

	if (from < to)
		(void)madvise(p + (from - (uintptr_t)p), to - from, advice);
}

/* Asks for huge pages where whole ones fit, which saves faults now and misses of the translation
 * buffer later. */
void *
mem_zalloc_large(size_t count, size_t size)
{
	void *p = mem_zalloc(count, size);

	advise(p, count * size, HUGE_PAGE, MADV_HUGEPAGE);
	return p;
}

/* All pages in one call, which takes a fraction of what one fault each would take. */
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

/* Exactly n bytes are copied, a NUL among them too, and one more is appended. */
char *
mem_strndup(const char *s, size_t n)
{
	char *p = mem_alloc(n + 1, 1);

	memcpy(p, s, n);
	p[n] = '\0';
	return p;
}

/* The caller frees it, like everything of this file except what comes from a pool. */
char *
mem_strdup(const char *s)
{
	return mem_strndup(s, strlen(s));
}

/*
 * For sizes that come from files: -1 on overflow, where an allocation would be too late to notice.
 * *out is the wrapped product then, and must not be used.
 */
int
mem_mul(uint64_t a, uint64_t b, uint64_t *out)
{
	return __builtin_mul_overflow(a, b, out) ? -1 : 0;
}

/* A block of which `used` bytes are given out. What is large comes zeroed from the system. */
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
 * Zeroed, aligned to 16 bytes, freed with the pool and never before. Half of SIZE_MAX is the bound,
 * so that rounding up and the head of the block cannot overflow. What is left of a block when the
 * next one begins is lost.
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

/* The terminator is the zero that the pool's memory already holds. */
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
