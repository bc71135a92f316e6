/*
 * muon.c - momentum orthogonalized by Newton-Schulz, for matrices of layers; AdamW for the rest
 *
 *   m = beta m + (1 - beta) g        x = m, or beta m + (1 - beta) g with Nesterov
 *   w -= lr (scale O(x) + decay w)   O: newton_schulz.h, of the whole matrix
 *
 * Data ranks own whole matrices (lib/model/cut.h), of which each tensor rank has a shard, or each
 * of the ranks that share an expert. These ranks take a matrix each at a time: a rank gathers its
 * matrix, makes the update, and sends the others their parts of it. Sources: Jordan 2024,
 * kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982; Megatron-LM
 * core/optimizer/emerging_optimizers.py.
 */
#include "lib/base/mem.h"
#include "train/optim/newton_schulz.h"
#include "train/optim/optim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Some matrices of a bucket, at most one for each of the ranks that have parts of all of them:
 * matrix i is that of rank i. */
struct round {
	struct engine *e;
	const struct optim_options *o;
	const struct optim_update *u;
	bool experts;      /* that ranks share */
	struct comm *comm; /* has these ranks from its rank `first` on */
	int first, rank, ranks, count;
	const struct shard **shard; /* [ranks] */
	struct p2p *message;        /* [2 ranks] */
};

static const struct param *
param_of(const struct round *x, int i)
{
	return &x->e->table[x->shard[i]->param];
}

/* The part of matrix i that a rank holds. */
static struct slice
slice_of(const struct round *x, int i, int rank)
{
	const struct run_plan *plan = &x->e->plan;
	int coord[AX_COUNT], at[EX_COUNT];
	int64_t held;

	memcpy(coord, x->e->coord, sizeof coord);
	if (x->experts) {
		layout_expert_coord(&plan->layout, coord, at);
		at[EX_TP] = rank;
		layout_expert_place(&plan->layout, at, coord);
	} else {
		coord[AX_TP] = rank;
	}
	return param_slice(param_of(x, i), &plan->model, &plan->layout, coord, &held);
}

/* A rank's part of matrix i is taken from one rank that holds it. */
static bool
gives(const struct round *x, int i, int rank)
{
	return param_owner(param_of(x, i), &x->e->plan.model, &x->e->plan.layout, rank);
}

/* A box as a dense matrix that begins with element `first` of a buffer, read as of some type. */
static struct tensor
dense(const struct tensor *t, enum dtype type, int64_t first, const struct slice *slice)
{
	return tensor_2d((char *)t->data + (size_t)first * dtype_size(type), type, slice->count[0],
	    slice->count[1]);
}

/* This rank's part of matrix i: its momentum, then its update. */
static struct tensor
part_of(const struct round *x, int i, enum dtype type)
{
	struct tensor t = engine_buffer(x->e, BUF_UPDATES);
	struct slice slice = slice_of(x, i, x->rank);
	size_t share = tensor_bytes(&t) / (size_t)x->ranks / dtype_size(type);

	return dense(&t, type, i * (int64_t)share, &slice);
}

/* The part of another rank of the matrix that this rank has; ranks that hold the same share it. */
static struct tensor
part_at(const struct round *x, int rank, enum dtype type)
{
	struct tensor t = engine_buffer(x->e, BUF_UPDATES_GATHERED);
	struct slice slice = slice_of(x, x->rank, rank);
	const struct param *p = param_of(x, x->rank);
	int64_t first = slice.start[p->shard_dim] * p->shape[!p->shard_dim];

	return rank == x->rank ? part_of(x, rank, type) : dense(&t, type, first, &slice);
}

/* The rank's columns or rows of the whole matrix. */
static struct tensor
inside(const struct round *x, const struct tensor *whole, int rank)
{
	struct slice slice = slice_of(x, x->rank, rank);
	struct tensor rows = tensor_rows(whole, slice.start[0], slice.count[0]);

	return tensor_columns(&rows, slice.start[1], slice.count[1]);
}

/* y = a x + b y. */
static void
mix(const struct round *x, const struct tensor *y, double a, const struct tensor *from, double b)
{
	x->e->ops->axpby(x->e->stream, &(struct axpby){ .y = *y, .x = *from, .a = a, .b = b });
}

/* Adds the gradient to the momentum of matrix i, and leaves what is to be orthogonalized. Decay
 * that is not decoupled is part of the gradient. */
static void
take_gradient(const struct round *x, int i)
{
	const struct muon_options *o = &x->o->muon;
	struct part own = engine_optim_part_of(x->e, x->shard[i]);
	struct tensor grad = engine_part(x->e, BUF_GRADS, &own),
		      momentum = engine_part(x->e, BUF_STATE, &own),
		      master = engine_masters(x->e, &own),
		      part = part_of(x, i, memory_buffer(&x->e->mem, BUF_UPDATES)->dtype),
		      flat = tensor_flat(&part);
	double scale = (1 - o->momentum) * x->u->grad_scale;

	if (!x->o->decoupled_weight_decay)
		mix(x, &grad, x->u->weight_decay / x->u->grad_scale, &master, 1);
	mix(x, &momentum, scale, &grad, o->momentum);
	mix(x, &flat, o->nesterov ? o->momentum : 1, &momentum, 0);
	if (o->nesterov)
		mix(x, &flat, scale, &grad, 1);
}

/* Each rank gets all parts of its matrix, or gives the others theirs. */
static void
exchange(const struct round *x, bool gather, enum dtype type)
{
	int count = 0;

	for (int i = 0; i < x->count; i++)
		if (i != x->rank && (!gather || gives(x, i, x->rank)))
			x->message[count++] =
			    (struct p2p){ gather, x->first + i, 0, part_of(x, i, type) };
	for (int r = 0; r < x->ranks && x->rank < x->count; r++)
		if (r != x->rank && (!gather || gives(x, x->rank, r)))
			x->message[count++] =
			    (struct p2p){ !gather, x->first + r, 0, part_at(x, r, type) };
	if (x->ranks > 1)
		x->comm->ops->exchange(
		    COMM_HERE(x->comm), x->e->stream, &(struct comm_messages){ x->message, count });
}

/* The gathered parts over their norm, as one matrix. The norm is a sum over parts in double. */
static struct tensor
normalized(const struct round *x)
{
	const struct ops *ops = x->e->ops;
	struct tensor scalars = engine_buffer(x->e, BUF_SCALARS),
		      squares = tensor_rows(&scalars, SCALAR_MATRIX, 1),
		      t = engine_buffer(x->e, BUF_MATRIX);
	const struct param *p = param_of(x, x->rank);
	struct tensor whole = tensor_2d(t.data, t.dtype, p->shape[0], p->shape[1]);

	ops->fill(x->e->stream, &(struct fill){ squares, 0 });
	for (int r = 0; r < x->ranks; r++) {
		struct tensor part = part_at(x, r, memory_buffer(&x->e->mem, BUF_UPDATES)->dtype);

		if (gives(x, x->rank, r))
			ops->dot(x->e->stream, &(struct dot){ squares, part, part });
	}
	for (int r = 0; r < x->ranks; r++) {
		struct axpby c = { .y = inside(x, &whole, r),
			.x = part_at(x, r, memory_buffer(&x->e->mem, BUF_UPDATES)->dtype),
			.a = 1,
			.squares = squares,
			.eps = 1e-7 };

		if (gives(x, x->rank, r))
			ops->axpby(x->e->stream, &c);
	}
	return whole;
}

/* Replaces the parts of the matrix that this rank has by those of its update. */
static void
orthogonalize(const struct round *x)
{
	struct tensor whole = normalized(x), next = engine_buffer(x->e, BUF_MATRIX_NEXT),
		      gram = engine_buffer(x->e, BUF_GRAM),
		      even = engine_buffer(x->e, BUF_GRAM_NEXT);
	int64_t side = whole.shape[whole.shape[0] > whole.shape[1]];
	struct newton_schulz s = { .ops = x->e->ops,
		.stream = x->e->stream,
		.x = whole,
		.next = tensor_2d(next.data, next.dtype, whole.shape[0], whole.shape[1]),
		.gram = tensor_2d(gram.data, gram.dtype, side, side),
		.even = tensor_2d(even.data, even.dtype, side, side),
		.type = x->o->muon.coefficient_type,
		.steps = x->o->muon.num_ns_steps };

	whole = newton_schulz(&s);
	for (int r = 0; r < x->ranks; r++) {
		struct tensor from = inside(x, &whole, r), to = part_at(x, r, whole.dtype);

		x->e->ops->cast(x->e->stream, &(struct pair){ to, from });
	}
}

/* What an orthogonal [rows, columns] matrix is multiplied by, so that one rate suits all shapes. */
static double
scale_of(const struct muon_options *o, const struct param *p)
{
	double rows = (double)p->shape[0], columns = (double)p->shape[1];

	switch (o->scale_mode) {
	case MUON_SPECTRAL: return o->extra_scale_factor * sqrt(fmax(rows, columns));
	case MUON_UNIT_RMS_NORM: return o->extra_scale_factor * sqrt(rows / columns);
	default: return o->extra_scale_factor * sqrt(fmax(1, rows / columns));
	}
}

/* Updates this rank's part of matrix i. */
static void
apply(const struct round *x, int i)
{
	struct engine *e = x->e;
	struct part own = engine_optim_part_of(e, x->shard[i]);
	struct tensor master = engine_masters(e, &own), weight = engine_part(e, BUF_WEIGHTS, &own),
		      part = part_of(x, i, memory_buffer(&e->mem, BUF_MATRIX)->dtype),
		      flat = tensor_flat(&part);
	double decay = x->o->decoupled_weight_decay ? x->u->weight_decay : 0;

	mix(x, &master, -x->u->lr * scale_of(&x->o->muon, param_of(x, i)), &flat,
	    1 - x->u->lr * decay);
	if (memory_buffer(&e->mem, BUF_MASTER)->bytes)
		e->ops->cast(e->stream, &(struct pair){ weight, master });
}

static void
update_round(struct round *x)
{
	for (int i = 0; i < x->count; i++)
		take_gradient(x, i);
	exchange(x, true, memory_buffer(&x->e->mem, BUF_UPDATES)->dtype);
	if (x->rank < x->count)
		orthogonalize(x);
	exchange(x, false, memory_buffer(&x->e->mem, BUF_MATRIX)->dtype);
	for (int i = 0; i < x->count; i++)
		apply(x, i);
	x->count = 0;
}

/* Sets the ranks that have parts of the matrices of a bucket. */
static void
find_ranks(struct round *x, const struct bucket *b)
{
	const struct engine *e = x->e;
	int at[EX_COUNT];

	x->experts = b->experts;
	if (b->experts) {
		layout_expert_coord(&e->plan.layout, e->coord, at);
		x->comm = e->groups.ep;
		x->rank = at[EX_TP];
		x->ranks = (int)layout_expert_slices(&e->plan.layout);
		x->first = x->comm->rank - x->rank;
	} else {
		x->comm = e->groups.tp;
		x->rank = x->comm->rank;
		x->ranks = x->comm->size;
	}
}

/* Collective over the tensor group, whose ranks own shards of the same matrices, or where experts
 * are shared over the ranks with slices of the same ones. */
static void
update_matrices(
    struct engine *e, const struct optim_options *o, const struct optim_update *u, int bucket)
{
	const struct shards *s = &e->mem.shards;
	struct round x = { .e = e, .o = o, .u = u };

	find_ranks(&x, &s->bucket[bucket]);
	x.shard = mem_alloc((size_t)x.ranks, sizeof *x.shard);
	x.message = mem_alloc(2 * (size_t)x.ranks, sizeof *x.message);
	for (int i = 0; i < s->count; i++) {
		if (s->item[i].bucket != bucket || engine_optim_part_of(e, &s->item[i]).count == 0)
			continue;
		x.shard[x.count++] = &s->item[i];
		if (x.count == x.ranks)
			update_round(&x);
	}
	if (x.count)
		update_round(&x);
	free(x.shard);
	free(x.message);
}

static void
update(struct engine *e, const struct optim_options *o, const struct optim_chunk *p)
{
	optim_adam.update(e, o, p);
}

static const enum use uses[] = { OP_fill, OP_dot, OP_cast, OP_axpby, OP_gemm, OP_adamw,
	CALL_exchange, USES_END };

const struct optim_kind optim_muon = { update,
	OPTIM_BETA1 | OPTIM_BETA2 | OPTIM_EPS | OPTIM_MUON | OPTIM_DECAY_FORM, update_matrices,
	uses };
