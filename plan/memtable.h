/*
 * memtable.h - the memory plan of every stage or rank as a table
 *
 * The figures come from lib/model/memory, by which the trainer allocates. Tensor and data ranks of
 * one stage hold equally many bytes, so a row stands for a stage, or for neighbouring stages with
 * equal figures.
 */
#ifndef PLAN_MEMTABLE_H
#define PLAN_MEMTABLE_H

#include "lib/model/memory.h"
#include "lib/model/options.h"

/* The sums of a row, in bytes. */
enum memtable_column {
	MEMTABLE_WEIGHTS,
	MEMTABLE_GRADIENTS,
	MEMTABLE_OPTIMIZER,
	MEMTABLE_CONSTANTS,
	MEMTABLE_SAVED,
	MEMTABLE_SCRATCH,
	MEMTABLE_WORKSPACE,
	MEMTABLE_TOTAL,
	MEMTABLE_HOST, /* not part of the total */
	MEMTABLE_COLUMNS
};

struct memtable_options {
	bool all_ranks, buffers, json;
};

/* Writes the table, tab-separated under a header line or as JSON Lines. */
void memtable_print(const struct run_plan *plan, const struct memtable_options *o, FILE *f);
/* The row of the stage whose total is largest. */
void memtable_fullest(const struct run_plan *plan, uint64_t sum[MEMTABLE_COLUMNS]);
/* The precision of a run, by the name of its option. */
const char *memtable_precision(enum dtype t);
/* The layout in one line: "ok: ...". */
void memtable_summary(const struct run_plan *plan, FILE *f);
/* Bytes of the fullest rank; shards of its stage's flat buffer in *elements, the optimizer's share
 * in *own (may be NULL). */
uint64_t memtable_most(
    struct memory_stages *x, const struct train_shape *s, int64_t *elements, int64_t *own);
/* Bytes that the rank which keeps most on its host keeps there. */
uint64_t memtable_most_on_host(struct memory_stages *x, const struct train_shape *s);

#endif
