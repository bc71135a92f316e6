/*
 * pipeline.h - read in order, work in parallel, write in order, in bounded memory
 *
 * Every thread does everything: it reads a slot, works on it and returns it, and any thread that
 * finds the next slot finished writes it. What a thread has read is in its own cache while it
 * works. One thread at a time reads, and one writes, in the order in which slots were read. The
 * caller owns the slots, which are reused, so memory does not depend on the input.
 */
#ifndef TOK_PIPELINE_H
#define TOK_PIPELINE_H

#include "lib/base/err.h"

struct pipeline {
	void *ctx;
	void *const *slot;
	int num_slots, num_workers;
	int (*read)(void *ctx, void *slot, struct err *e); /* 1 filled, 0 nothing more, -1 */
	/* worker 0, the caller, ..num_workers-1: its scratch */
	void (*work)(void *ctx, int worker, void *slot);
	int (*write)(void *ctx, void *slot, struct err *e); /* 0, or -1 to stop everything */
	void (*stop)(void *ctx); /* wakes a read that waits; called once, when write fails */
};

/* 0 when all was written; else -1 and the reason of the first failure in the order of the slots. */
int line_pipeline_run(const struct pipeline *p, struct err *e);

#endif
