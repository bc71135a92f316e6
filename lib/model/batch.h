/*
 * batch.h - the batch size of a step: constant, growing linearly, or from a table
 *
 * The size of a step depends only on the samples consumed before it, so a resumed run has the same
 * sizes as one that never stopped. Semantics follow Megatron-LM's
 * core/num_microbatches_calculator.py; linear growth follows its releases before 2026, as later
 * ones accept the option and ignore it.
 */
#ifndef MODEL_BATCH_H
#define MODEL_BATCH_H

#include "lib/base/opt.h"

enum { BATCH_TABLE_MAX = 64 };

/* Zero it or assign batch_constant before use. */
struct batch_ramp {
	/* linear growth; num_increments 0: the table is used */
	int64_t start, increment, num_increments, samples;
	/* the size of steps that begin at sample `first` or later; the first `first` is 0 */
	int count;
	struct {
		int64_t first, size;
	} step[BATCH_TABLE_MAX];
};

struct batch_ramp batch_constant(int64_t size);
/* From the words START INCREMENT SAMPLES to steps of `size`. -1 with the option and the rule. */
int batch_linear(struct batch_ramp *r, const struct opt_list *words, int64_t size, struct err *e);
/* From "TOKENS:SIZE TOKENS:SIZE ...", separated by blanks or commas; a suffix K, M, B or T means
 * 1e3 to 1e12. Tokens become whole samples of seq_length. -1 with the option and the rule. */
int batch_table(struct batch_ramp *r, const char *text, int64_t seq_length, struct err *e);

/* The size of the step that begins after `consumed` samples. */
int64_t batch_at(const struct batch_ramp *r, int64_t consumed);
int64_t batch_largest(const struct batch_ramp *r);
/* The i-th of the sizes that steps have; 0 beyond the last. */
int64_t batch_size(const struct batch_ramp *r, int64_t i);
/* The first size that is not a multiple of unit; 0: all are. */
int64_t batch_uneven(const struct batch_ramp *r, int64_t unit);
/* Steps from sample `from` that end at sample `to` or before. */
int64_t batch_steps(const struct batch_ramp *r, int64_t from, int64_t to);
/* The first sample, `to` or after it, at which one of the steps from sample `from` on begins. */
int64_t batch_reach(const struct batch_ramp *r, int64_t from, int64_t to);
/* The sample at which `steps` steps from sample `from` end; the caller bounds them. */
int64_t batch_end(const struct batch_ramp *r, int64_t from, int64_t steps);

#endif
