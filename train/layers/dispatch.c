/*
 * dispatch.c - rows on their way to the experts and back
 *
 * A row goes to each of its k experts: the copies lie in the order of experts, and so do their
 * weights. What comes back is added up in that order. Source: spec/training.md 10.5.
 */
#include "train/layers/dispatch.h"

/* Numbers of the choice [R,k] as a column of R k rows. */
static struct tensor
column(const struct tensor *t)
{
	int64_t n = tensor_elements(t);

	return tensor_2d(t->data, t->dtype, n, 1);
}

/* y = x in another order. */
static void
reorder(const struct layer *l, struct step *s, const struct rows_by *of)
{
	struct rows_by r = *of;

	r.place = step_buffer(s, BUF_PLACE, l->block->local);
	if (r.y.shape[1] == 1)
		r.place = column(&r.place);
	s->e->ops->rows_by(s->e->stream, &r);
}

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

void
dispatch_rows(const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	reorder(l, s, &(struct rows_by){ ROWS_SPREAD, *y, *x });
}

void
dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d)
{
	reorder(l, s, &(struct rows_by){ ROWS_SUM, d->y, d->x, .accumulate = d->accumulate });
}

void
dispatch_weights(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	reorder(l, s, &(struct rows_by){ ROWS_SPREAD, column(y), column(x) });
}

void
dispatch_weights_back(
    const struct layer *l, struct step *s, const struct tensor *y, const struct tensor *x)
{
	reorder(l, s, &(struct rows_by){ ROWS_SUM, column(y), column(x) });
}
