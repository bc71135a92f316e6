/*
 * dispatch.c - rows on their way to the experts and back
 *
 * A row goes to each of its k experts: the copies lie in the order of experts, and so do their
 * weights. Where ranks share the experts they are exchanged then: rows of the rank's experts come
 * from all ranks. What comes back is added up in the order of a row's experts. Source:
 * spec/training.md 10.5.
 */
#include "train/layers/dispatch.h"
#include "train/engine/timing.h"

/* A rank that has all experts has all counts. */
void
dispatch_counts(const struct layer *l, struct step *s)
{
	struct comm *ep = s->e->groups.ep;
	struct tensor all = step_buffer(s, BUF_EXPERT_ROWS, l->block->local),
		      own = tensor_rows(&all, ep->rank, 1);

	if (ep->size > 1)
		ep->ops->all_gather(COMM_HERE(ep), s->e->stream, &all, &own);
}

/* y = x in the order of experts, or the sums of a row's experts: of a row for all of its places, or
 * of a number of the choice for those of its expert. */
static void
reorder(const struct layer *l, struct step *s, const struct rows_by *of)
{
	struct rows_by r = *of;
	struct tensor place = step_buffer(s, BUF_PLACE, l->block->local);
	int64_t rows = (r.kind == ROWS_SPREAD ? r.x : r.y).shape[0];

	r.place = tensor_2d(place.data, place.dtype, rows, tensor_elements(&place) / rows);
	s->e->ops->rows_by(s->e->stream, &r);
}

/* The rows of a rank for all experts, R k n, on their way to or from those whose rows t has: t
 * itself where the rank has all experts. */
static struct tensor
on_the_way(const struct step *s, const struct tensor *t, enum buffer b)
{
	struct tensor rows = s->e->groups.ep->size > 1 ? engine_buffer(s->e, b) : *t;

	return rows.ndim == 1 ? tensor_column(&rows) : rows;
}

/* Sends rows to the ranks of their experts, or back. */
static void
exchange(const struct layer *l, struct step *s, struct rows_exchange x)
{
	struct comm *ep = s->e->groups.ep;

	if (ep->size == 1)
		return;
	x.counts = step_buffer(s, BUF_EXPERT_ROWS, l->block->local);
	timing_begin(s->e, SPAN_TENSOR);
	ep->ops->all_to_all_rows(COMM_HERE(ep), s->e->stream, &x);
	timing_end(s->e, SPAN_TENSOR);
}

void
dispatch_rows(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct tensor rows = on_the_way(s, y, BUF_ROUTED);

	reorder(l, s, &(struct rows_by){ ROWS_SPREAD, rows, *x });
	exchange(l, s, (struct rows_exchange){ .out = *y, .in = rows });
}

void
dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d)
{
	struct tensor rows = on_the_way(s, &d->x, BUF_ROUTED);

	exchange(l, s, (struct rows_exchange){ .out = rows, .in = d->x, .back = true });
	reorder(l, s, &(struct rows_by){ ROWS_SUM, d->y, rows, .accumulate = d->accumulate });
}

void
dispatch_weights(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct tensor rows = on_the_way(s, y, BUF_ROUTED_WEIGHT);

	reorder(l, s, &(struct rows_by){ ROWS_SPREAD, rows, tensor_column(x) });
	exchange(l, s, (struct rows_exchange){ .out = *y, .in = rows });
}

void
dispatch_weights_back(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	struct tensor rows = on_the_way(s, x, BUF_ROUTED_WEIGHT);

	exchange(l, s, (struct rows_exchange){ .out = rows, .in = *x, .back = true });
	reorder(l, s, &(struct rows_by){ ROWS_SUM, tensor_column(y), rows });
}
