/*
 * observe.c - wraps a table of operations, reporting each call before making it
 *
 * What is told of a call is described with the arguments of each operation, in train/op.
 */
#include "train/engine/observe.h"

/* The wrapper of an operation. One that has no description does not compile. */
#define OBSERVED(op, type) \
	static void observed_##op(struct stream *st, const struct type *a) \
	{ \
		void (*describe)(struct op_call *, const struct type *) = describe_##op; \
		struct op_call c = { .name = #op }; \
\
		describe(&c, a); \
		st->observer->before(st->observer, st); \
		st->ops->op(st, a); \
		st->observer->after(st->observer, st, &c); \
	}

#define ENTRY(op, type) .op = observed_##op,

OPS(OBSERVED, OBSERVED)

static const struct ops observed_ops = { OPS(ENTRY, ENTRY) };

/* The backend's own table stays in the stream, from which the wrappers call it. */
void
observe_begin(struct engine *e, struct observer *o)
{
	e->stream->observer = o;
	e->ops = &observed_ops;
}

void
observe_end(struct engine *e)
{
	e->ops = e->stream->ops;
	e->stream->observer = NULL;
}
