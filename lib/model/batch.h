/*
 * batch.h - samples of a step: always the same, growing linearly, or by a table
 *
 * The size of a step depends on the samples consumed before it and on nothing else, so a run that
 * stopped goes on with the sizes of one that did not. Meanings are those of Megatron-LM's
 * core/num_microbatches_calculator.py; linear growth is that of its releases before 2026, which
 * later ones accept and ignore.
 */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include "lib/base/opt.h"

enum { BATCH_TABLE_MAX = 64 };

/* Zero or batch_constant before anything else is called. */
struct batch_ramp {
	/* linear growth; num_increments 0: the table counts */
	int64_t start, increment, num_increments, samples;
	/* sizes of the steps that begin at sample `first` or later; the first of them is 0 */
	int count;
	struct {
		int64_t first, size;
	} step[BATCH_TABLE_MAX];
};

struct batch_ramp batch_constant(int64_t size);
/* From the words START INCREMENT SAMPLES to steps of `size`. -1 with the option and the rule. */
int batch_linear(struct batch_ramp *r, const struct opt_list *words, int64_t size, struct err *e);
/* From "TOKENS:SIZE TOKENS:SIZE ...", blanks or commas between, numbers with K, M, B or T for 1e3
 * to 1e12. Tokens become whole samples of seq_length. -1 with the option and the rule. */
int batch_table(struct batch_ramp *r, const char *text, int64_t seq_length, struct err *e);

/* Samples of the step that begins when `consumed` were consumed. */
int64_t batch_at(const struct batch_ramp *r, int64_t consumed);
int64_t batch_largest(const struct batch_ramp *r);
/* The first size that is no multiple of unit; 0: all are. */
int64_t batch_uneven(const struct batch_ramp *r, int64_t unit);
/* Steps from sample `from` that end at sample `to` or before. */
int64_t batch_steps(const struct batch_ramp *r, int64_t from, int64_t to);
/* The sample at which so many steps from sample `from` end; the caller bounds it. */
int64_t batch_end(const struct batch_ramp *r, int64_t from, int64_t steps);

#endif
