/*
 * checker.h - compares checksums of blocks in its own thread while other blocks are read
 *
 * Reading waits for the disk and comparing waits for memory, so both together take hardly longer
 * than reading alone.
 */
#ifndef CKPT_CHECKER_H
#define CKPT_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes and their expected XXH3-64; the bytes must stay valid until checker_wait. tag is for the
 * caller. */
struct check_block {
	const unsigned char *data;
	uint64_t bytes, sum;
	int tag;
};

struct checker;

/* If no thread can be created, blocks are compared when they are added. */
struct checker *checker_new(void);
/* Adds a block. Waits while the queue is full. Only one thread may add and wait. */
void checker_add(struct checker *k, const struct check_block *b);
/* Waits for all blocks that were added. True if all since the last call were intact; otherwise *tag
 * is the tag of a damaged one. */
bool checker_wait(struct checker *k, int *tag);
/* Waits first. NULL is ignored. */
void checker_free(struct checker *k);

#endif
