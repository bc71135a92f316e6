/*
 * mem.h - host memory that cannot fail to its callers
 *
 * Running out of memory is the one thing that ends a program from anywhere: one line, exit 1. Sizes
 * are given as count times size and checked before they are multiplied. A size that came from a
 * file must be checked against the file first.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

void *mem_alloc(size_t count, size_t size);  /* uninitialised; free() it */
void *mem_zalloc(size_t count, size_t size); /* zeroed */
void *mem_zalloc_large(
    size_t count, size_t size); /* zeroed; for tables of megabytes that are read at random */
void *mem_zalloc_whole(
    size_t count, size_t size); /* zeroed; for megabytes that will all be written, soon */
void *mem_realloc(void *p, size_t count, size_t size);
/* Ends the program in the same way, when a library has found no memory for `what`. */
void mem_none(const char *what) __attribute__((noreturn));
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);

/* Compares n bytes for equality. Up to 16, the length of most tokens, they are compared without a
 * call: as words from both ends, which may overlap. */
static inline bool
mem_equal(const void *a, const void *b, size_t n)
{
	const unsigned char *p = (const unsigned char *)a, *q = (const unsigned char *)b;
	uint64_t v[4] = { 0 };

	if (n > 16)
		return memcmp(p, q, n) == 0;
	if (n < 4)
		return n == 0 || (p[0] == q[0] && p[n / 2] == q[n / 2] && p[n - 1] == q[n - 1]);
	if (n < 8) {
		memcpy(&v[0], p, 4);
		memcpy(&v[1], q, 4);
		memcpy(&v[2], p + n - 4, 4);
		memcpy(&v[3], q + n - 4, 4);
	} else {
		memcpy(&v[0], p, 8);
		memcpy(&v[1], q, 8);
		memcpy(&v[2], p + n - 8, 8);
		memcpy(&v[3], q + n - 8, 8);
	}
	return v[0] == v[1] && v[2] == v[3];
}

/* *out = a * b; returns -1 when that does not fit 64 bits. For sizes read from files. */
int mem_mul(uint64_t a, uint64_t b, uint64_t *out);

/* A bump allocator: many small items that are freed together. Zero-initialise; items are 16-byte
 * aligned and zeroed. */
struct mem_pool {
	struct mem_block *block;
};

void *mem_pool_alloc(struct mem_pool *pool, size_t count, size_t size);
char *mem_pool_strndup(struct mem_pool *pool, const char *s, size_t n);
void mem_pool_release(struct mem_pool *pool);

#endif
