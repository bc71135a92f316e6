/*
 * dispatch.c - rows on their way to the experts and back
 *
 * A row goes to each of its k experts: the copies lie in the order of experts, and so do their
 * weights. Where ranks share the experts they are exchanged then: rows of the rank's experts come
 * from all ranks. What comes back is added up in the order of a row's experts. Source:
 * docs/math.md 5.5.
 */
#include "lib/model/block/moe.h"
#include "train/layers/dispatch.h"
#include "train/engine/timing.h"

/* A rank that has all experts has all counts. */
void
dispatch_counts(const struct layer *l, struct step *s)
{
	struct comm *ep = s->e->groups.ep;
	struct tensor all = layer_buffer(l, s, MOE_EXPERT_ROWS),
		      own = tensor_rows(&all, ep->rank, 1);

	if (ep->size > 1)
		ep->ops->all_gather(COMM_HERE(ep), s->e->stream, &(struct comm_gather){ all, own });
}

struct tensor
dispatch_received(const struct layer *l, const struct step *s)
{
	struct comm *ep = s->e->groups.ep;
	struct tensor all = layer_buffer(l, s, MOE_EXPERT_ROWS);
	int64_t local = all.shape[1] / ep->size;

	return tensor_columns(&all, ep->rank * local, local);
}

struct tensor
dispatch_rows(const struct step *s, int b, const struct tensor *taken)
{
	struct tensor rows = s->e->groups.ep->size > 1 ? engine_buffer(s->e, b) : *taken;

	return rows.ndim == 1 ? tensor_column(&rows) : rows;
}

/* A row goes to all of its places, a number of a top-k index to those of its expert. */
static void
reorder(const struct layer *l, struct step *s, struct permute r)
{
	struct tensor permutation = layer_buffer(l, s, MOE_PERMUTATION);
	int64_t rows = (r.kind == ROWS_PERMUTE ? r.x : r.y).shape[0];

	r.permutation = tensor_2d(
	    permutation.data, permutation.dtype, rows, tensor_elements(&permutation) / rows);
	s->e->ops->permute(s->e->stream, &r);
}

/* As many columns as the rows have. */
static struct tensor
as_rows(const struct tensor *t, const struct tensor *rows)
{
	return rows->shape[1] == 1 ? tensor_column(t) : *t;
}

void
dispatch_permute(
    const struct layer *l, struct step *s, const struct tensor *rows, const struct tensor *x)
{
	reorder(l, s, (struct permute){ ROWS_PERMUTE, *rows, as_rows(x, rows) });
}

void
dispatch_sum(const struct layer *l, struct step *s, const struct dispatch_sum *d)
{
	reorder(l, s,
	    (struct permute){
		ROWS_GATHER, as_rows(&d->y, &d->rows), d->rows, .accumulate = d->accumulate });
}

/* A rank that has all experts has all rows. */
static void
exchange(const struct layer *l, struct step *s, struct rows_exchange x)
{
	struct comm *ep = s->e->groups.ep;

	if (ep->size == 1)
		return;
	x.counts = layer_buffer(l, s, MOE_EXPERT_ROWS);
	timing_begin(s->e, SPAN_TENSOR);
	ep->ops->all_to_all_rows(COMM_HERE(ep), s->e->stream, &x);
	timing_end(s->e, SPAN_TENSOR);
}

void
dispatch_send(const struct layer *l, struct step *s, const struct dispatch *d)
{
	exchange(l, s, (struct rows_exchange){ .out = d->taken, .in = d->rows, .first = d->first });
}

void
dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d)
{
	exchange(l, s,
	    (struct rows_exchange){
		.out = d->rows, .in = d->taken, .first = d->first, .back = true });
}
