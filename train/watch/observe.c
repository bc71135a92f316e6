/*
 * observe.c - wraps a table of operations, reporting each call before making it
 *
 * What is told of a call is described with the arguments of each operation, in train/op.
 */
#include "train/watch/observe.h"

/* The wrapper of an operation. One that has no description does not compile. */
#define OPERATION(op, type) \
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

#include "train/ops_list.h"

static const struct ops observed_ops = {
#define OPERATION(op, type) .op = observed_##op,
#include "train/ops_list.h"
};

/* The backend's own table stays in the stream, from which the wrappers call it. */
const struct ops *
observe_begin(struct stream *s, struct observer *o)
{
	s->observer = o;
	return &observed_ops;
}

const struct ops *
observe_end(struct stream *s)
{
	s->observer = NULL;
	return s->ops;
}
