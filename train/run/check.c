/*
 * check.c - finds the first operation of a failed step that wrote NaN or Inf
 *
 * The gradient norm shows at no cost that a step failed; only then is the step repeated with an
 * observer that counts what is not finite in every output. The observer waits for the device at
 * each operation, which one step can afford. "First" means the order of the arithmetic, not of the
 * clock: micro batch, forward before backward, depth of the layer, order of the calls, rank.
 */
#include "lib/base/mem.h"
#include "train/run/check.h"
#include "train/watch/observe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a rank found, and its number in the order of the arithmetic; INFINITY: it found nothing. */
struct check {
	struct observer base;
	struct engine *e;
	int64_t calls;
	double order;
	char where[160];
};

static void
before(struct observer *o, struct stream *st)
{
	(void)o;
	(void)st;
}

/* How many elements of a floating tensor are not finite. Rows that lie apart are counted one by
 * one. */
static double
count(struct check *c, struct stream *st, const struct tensor *t)
{
	struct tensor scalars = engine_buffer(c->e, BUF_SCALARS),
		      bad = tensor_rows(&scalars, SCALAR_NONFINITE, 1);
	bool dense = t->ndim == 1 || t->stride[0] == t->shape[1];
	double read[SCALAR_COUNT];

	st->ops->fill(st, &(struct fill){ bad, 0 });
	for (int64_t r = 0; r < (dense ? 1 : t->shape[0]); r++) {
		struct tensor row = dense ? *t : tensor_rows(t, r, 1);

		row = tensor_flat(&row);
		st->ops->count_nonfinite(st, &(struct pair){ bad, row });
	}
	engine_read_scalars(c->e, read);
	return read[SCALAR_NONFINITE];
}

/* True for tensors that need a check. Integers hold no NaN. The scalars are sums of values that are
 * already checked, and those of the loss still hold the failed step's values. */
static bool
is_suspect(const struct check *c, const struct tensor *t)
{
	struct tensor scalars = engine_buffer(c->e, BUF_SCALARS);
	const char *first = scalars.data, *at = t->data;

	return dtype_is_float(t->dtype) && (at < first || at >= first + tensor_bytes(&scalars));
}

/* The number of a call in the order of the arithmetic. */
static double
order(const struct check *c)
{
	double layers = (double)model_end(&c->e->plan.model) + 2, depth = c->base.layer + 1;
	double pass = 2 * (double)c->base.microbatch + c->base.backward;

	return (pass * layers + (c->base.backward ? layers - depth : depth)) * 1e6 +
	    (double)c->calls;
}

/* A call's place, in words. */
static void
describe(struct check *c, const char *op, const char *output, double bad, double of)
{
	const char *pass = c->base.backward ? "backward" : "forward";
	int64_t layers = c->e->plan.model.num_layers;
	char layer[32];

	if (c->base.layer < 0)
		snprintf(layer, sizeof layer, "the embedding");
	else if (c->base.layer == layers)
		snprintf(layer, sizeof layer, "the head");
	else if (c->base.layer > layers)
		snprintf(layer, sizeof layer, "mtp layer %d", c->base.layer - (int)layers - 1);
	else
		snprintf(layer, sizeof layer, "layer %d", c->base.layer);
	snprintf(c->where, sizeof c->where,
	    "rank %d, micro batch %lld, %s pass of %s: '%s' of %s (%.0f of %.0f)", c->e->rank,
	    (long long)c->base.microbatch, pass, layer, output, op, bad, of);
}

/* The rows of an output that the operation has written: of a round those that are there. */
static struct tensor
written(struct check *c, struct stream *st, const struct op_call *call, const struct tensor *out)
{
	struct tensor counts;
	int64_t rows;

	if (!call->counts)
		return *out;
	counts = *call->counts;
	counts.data = mem_alloc((size_t)(counts.shape[0] * counts.stride[0]), sizeof(int32_t));
	c->e->backend->copy_out(st, counts.data, call->counts->data,
	    (size_t)((counts.shape[0] - 1) * counts.stride[0] + counts.shape[1]) * sizeof(int32_t));
	engine_sync(c->e);
	rows = round_rows(&counts, call->first, out->shape[0]);
	free(counts.data);
	return tensor_rows(out, 0, rows);
}

static void
after(struct observer *o, struct stream *st, const struct op_call *call)
{
	struct check *c = (struct check *)o;
	double n;

	c->calls++;
	for (int i = 0; i < OP_OUTPUTS && call->out[i] && c->order == INFINITY; i++) {
		struct tensor out;

		if (!is_suspect(c, call->out[i]))
			continue;
		out = written(c, st, call, call->out[i]);
		n = count(c, st, &out);
		if (n == 0)
			continue;
		c->order = order(c);
		describe(c, call->name, call->out_name[i], n, (double)tensor_elements(&out));
	}
}

/* Rank 0 gets the earliest of all ranks' finds. */
void
check_find(struct engine *e, void (*pass)(void *ctx), void *ctx, struct str *out)
{
	struct comm *w = e->groups.world;
	struct check c = { .base = { before, after, 0, -1, false }, .e = e, .order = INFINITY };
	double least;
	struct tensor t = tensor_1d(&least, DTYPE_F64, 1);
	size_t total;
	char *all;

	e->ops = observe_begin(e->stream, &c.base);
	pass(ctx);
	e->ops = observe_end(e->stream);
	least = -c.order;
	w->ops->all_reduce(COMM_HERE(w), NULL, &(struct comm_reduce){ t, REDUCE_MAX });
	all = w->ops->gather_bytes(COMM_HERE(w), c.where,
	    c.order == -least && c.where[0] ? strlen(c.where) + 1 : 0, 0, &total);
	if (all && total > 0)
		str_adds(out, all);
	free(all);
}
