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

struct tensor
dispatch_places(const struct layer *l, const struct step *s, int turn)
{
	struct tensor all = layer_buffer(l, s, MOE_PERMUTATION);
	int64_t rows = all.shape[0] / layout_expert_hosts(&s->e->plan.layout);

	return tensor_rows(&all, turn * rows, rows);
}

/* Of each rank of the host. */
static struct tensor
counts_of(const struct layer *l, const struct step *s, int turn)
{
	struct tensor all = layer_buffer(l, s, MOE_EXPERT_ROWS);
	int64_t ranks = s->e->groups.ep_inside->size;

	return tensor_rows(&all, turn * ranks, ranks);
}

void
dispatch_place(const struct layer *l, struct step *s, int turn, const struct tensor *choice)
{
	struct comm *c = s->e->groups.ep_inside;
	int64_t topk = s->e->plan.model.moe_router_topk,
		experts = s->e->plan.model.num_experts / layout_expert_hosts(&s->e->plan.layout);
	struct tensor all = counts_of(l, s, turn), own = tensor_rows(&all, c->rank, 1);
	struct place_rows p = {
		.choice = tensor_2d(choice->data, choice->dtype, choice->shape[0], topk),
		.permutation = dispatch_places(l, s, turn),
		.counts = tensor_2d(own.data, own.dtype, c->size, own.shape[1] / c->size),
		.first = s->e->groups.ep_rail->rank * experts,
	};

	p.permutation = tensor_2d(p.permutation.data, p.permutation.dtype, choice->shape[0],
	    topk * layout_expert_slices(&s->e->plan.layout));
	s->e->ops->place_rows(s->e->stream, &p);
}

/* A rank that has all experts of its host has all counts. */
void
dispatch_counts(const struct layer *l, struct step *s, int turn)
{
	struct comm *c = s->e->groups.ep_inside;
	struct tensor all = counts_of(l, s, turn), own = tensor_rows(&all, c->rank, 1);

	if (c->size > 1)
		c->ops->all_gather(COMM_HERE(c), s->e->stream, &(struct comm_gather){ all, own });
}

/* Of counts those for the rank's own experts. */
static struct tensor
own_columns(const struct step *s, const struct tensor *counts)
{
	struct comm *c = s->e->groups.ep_inside;
	int64_t local = counts->shape[1] / c->size;

	return tensor_columns(counts, c->rank * local, local);
}

struct tensor
dispatch_received(const struct layer *l, const struct step *s, int turn)
{
	struct tensor counts = counts_of(l, s, turn);

	return own_columns(s, &counts);
}

struct tensor
dispatch_arrived(const struct layer *l, const struct step *s)
{
	struct tensor counts = layer_buffer(l, s, MOE_EXPERT_ROWS);

	return own_columns(s, &counts);
}

struct tensor
dispatch_rows(const struct step *s, int b, const struct tensor *taken)
{
	struct tensor rows = s->e->groups.ep->size > 1 ? engine_buffer(s->e, b) : *taken;

	return rows.ndim == 1 ? tensor_column(&rows) : rows;
}

/* As many columns as the rows have. */
static struct tensor
as_rows(const struct tensor *t, const struct tensor *rows)
{
	return rows->shape[1] == 1 ? tensor_column(t) : *t;
}

/* A row goes to all of its places, a number of a top-k index to those of its expert. */
static void
reorder(const struct layer *l, struct step *s, const struct dispatch_order *d, struct permute r)
{
	struct tensor places = dispatch_places(l, s, d->turn), x = as_rows(&d->x, &d->rows);
	bool permutes = r.kind == ROWS_PERMUTE;

	r.permutation =
	    tensor_2d(places.data, places.dtype, x.shape[0], tensor_elements(&places) / x.shape[0]);
	r.y = permutes ? d->rows : x;
	r.x = permutes ? x : d->rows;
	s->e->ops->permute(s->e->stream, &r);
}

void
dispatch_permute(const struct layer *l, struct step *s, const struct dispatch_order *d)
{
	reorder(l, s, d, (struct permute){ .kind = ROWS_PERMUTE });
}

void
dispatch_sum(const struct layer *l, struct step *s, const struct dispatch_order *d)
{
	reorder(l, s, d, (struct permute){ .kind = ROWS_GATHER, .accumulate = d->accumulate });
}

/* A rank that has all experts has all rows. */
static void
exchange(const struct layer *l, struct step *s, int turn, struct rows_exchange x)
{
	struct comm *c = s->e->groups.ep_inside;

	if (s->e->groups.ep->size == 1)
		return;
	x.counts = counts_of(l, s, turn);
	timing_begin(s->e, SPAN_TENSOR);
	c->ops->all_to_all_rows(COMM_HERE(c), s->e->stream, &x);
	timing_end(s->e, SPAN_TENSOR);
}

void
dispatch_send(const struct layer *l, struct step *s, const struct dispatch *d)
{
	exchange(l, s, d->turn,
	    (struct rows_exchange){ .out = d->taken, .in = d->rows, .first = d->first });
}

void
dispatch_back(const struct layer *l, struct step *s, const struct dispatch *d)
{
	exchange(l, s, d->turn,
	    (struct rows_exchange){
		.out = d->rows, .in = d->taken, .first = d->first, .back = true });
}
