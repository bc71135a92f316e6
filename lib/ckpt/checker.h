/*
 * checker.h - sums of blocks, compared by a thread of its own while others are read
 *
 * Reading waits for the disk and comparing for memory, so together they take hardly longer than
 * reading alone.
 */
#ifndef CKPT_CHECKER_H
#define CKPT_CHECKER_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that should have an XXH3-64; they must stay until checker_wait. tag is the caller's. */
struct check_block {
	const unsigned char *data;
	uint64_t bytes, sum;
	int tag;
};

struct checker;

/* Where the system gives no thread, blocks are compared when they are added. */
struct checker *checker_new(void);
/* Adds a block. Waits while many are still to be compared. One thread adds and waits. */
void checker_add(struct checker *k, const struct check_block *b);
/* Waits for all that were added. True: all were right since the last call; else *tag is that of one
 * that was not. */
bool checker_wait(struct checker *k, int *tag);
/* Waits, too. NULL is fine. */
void checker_free(struct checker *k);

#endif
