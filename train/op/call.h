/*
 * call.h - what an operation tells of a call: the tensors that it reads and writes, each once, and
 * how much it multiplies
 *
 * Each operation has a describe_NAME that fills a struct op_call from its arguments. The work is
 * that of the contract, not of an implementation, so a rate computed from it compares with the
 * roofline.
 */
#ifndef TRAIN_OP_CALL_H
#define TRAIN_OP_CALL_H

#include "lib/base/err.h"
#include "train/tensor.h"

struct stream;

/* A wrong shape or type is the caller's mistake. */
#define ops_require(x) \
	do { \
		if (!(x)) \
			BUG("operation called with wrong arguments: not %s", #x); \
	} while (0)

enum { OP_OUTPUTS = 7 };

struct op_call {
	const char *name;                     /* the table's, GEMMs by what they are for; static */
	const struct tensor *out[OP_OUTPUTS]; /* its outputs, without gaps */
	const char *out_name[OP_OUTPUTS];
	/* set: the outputs are rounds of the rows of experts (experts.h), from `first` */
	const struct tensor *counts;
	int64_t first;
	double flops; /* of GEMMs and attention, causal attention counted half; else 0 */
	double bytes; /* read or written, each tensor once */
};

/* Adds an input, if it has data. */
static inline void
op_reads(struct op_call *c, const struct tensor *t)
{
	if (t->data)
		c->bytes += (double)tensor_bytes(t);
}

/* Adds an output, if it has data. */
static inline void
op_writes(struct op_call *c, const char *name, const struct tensor *t)
{
	int i = 0;

	if (!t->data)
		return;
	while (i < OP_OUTPUTS && c->out[i])
		i++;
	ops_require(i < OP_OUTPUTS);
	c->out[i] = t;
	c->out_name[i] = name;
	c->bytes += (double)tensor_bytes(t);
}

/* The outputs are rounds of the rows of experts. */
static inline void
op_round(struct op_call *c, const struct tensor *counts, int64_t first)
{
	c->counts = counts;
	c->first = first;
}

#endif
