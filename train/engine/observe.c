/*
 * observe.c - wraps a table of operations, reporting each call before making it
 *
 * For each operation: its outputs and its minimum work, from the arguments. The work is that of the
 * contract, not of an implementation: bytes count every tensor once, so a rate computed from them
 * compares with the roofline.
 */
#include "train/engine/observe.h"

#include <string.h>

/* Adds an output, if it has data. */
static void
out(struct op_call *c, const char *name, const struct tensor *t)
{
	int i = 0;

	if (!t->data)
		return;
	while (c->out[i])
		i++;
	c->out[i] = t;
	c->out_name[i] = name;
	c->bytes += (double)tensor_bytes(t);
}

/* Adds an input. */
static void
in(struct op_call *c, const struct tensor *t)
{
	if (t->data)
		c->bytes += (double)tensor_bytes(t);
}

/* The outputs are windows of the rows of experts. */
static void
window(struct op_call *c, const struct tensor *counts, int64_t first)
{
	c->counts = counts;
	c->first = first;
}

/* Copies of a result. A maximum is not an output here: that of gradients may well be infinite. */
static void
out_copies(struct op_call *c, const struct quantise *q)
{
	out(c, "q", &q->q);
	out(c, "qt", &q->qt);
	out(c, "sums", &q->sums);
}

/* Whose gradient a GEMM computes is told by what is transposed; of 8-bit operands, which all lie
 * alike, by how sums are held and by the type of main gradients. */
static const char *
gemm_name(const struct gemm *g)
{
	bool eight = dtype_is_float8(g->a.dtype),
	     weight = eight ? g->exact && g->c.dtype == DTYPE_F32 : g->trans_a,
	     forward = eight ? !g->exact : g->trans_b;

	return weight ? "gemm weight gradient" : forward ? "gemm forward" : "gemm input gradient";
}

static void
describe_gemm(struct op_call *c, const struct gemm *g)
{
	int64_t k = g->trans_a ? g->a.shape[0] : g->a.shape[1];

	c->name = gemm_name(g);
	c->flops = 2 * (double)tensor_elements(&g->c) * (double)k;
	in(c, &g->a);
	in(c, &g->b);
	if (g->beta != 0)
		in(c, &g->c);
	out(c, "c", &g->c);
	out(c, "dbias", &g->dbias);
	if (g->act == GEMM_GELU)
		out(c, "aux", &g->aux);
	else
		in(c, &g->aux);
}

static void
describe_norm_fwd(struct op_call *c, const struct norm *n)
{
	in(c, &n->x);
	out(c, "y", &n->y);
	out_copies(c, &n->copies);
	out(c, "mean", &n->mean);
	out(c, "rstd", &n->rstd);
}

static void
describe_norm_bwd(struct op_call *c, const struct norm_grad *n)
{
	in(c, &n->dy);
	in(c, &n->x);
	if (!n->writes_dx)
		in(c, &n->dx);
	out(c, "dx", &n->dx);
	out(c, "dweight", &n->dweight);
	out(c, "dbias", &n->dbias);
	out(c, "dx_sum", &n->dx_sum);
}

static void
describe_rope(struct op_call *c, const struct rope *r)
{
	in(c, &r->x);
	out(c, "x", &r->x);
}

/* Half the square for every window, as in published figures. */
static double
attention_flops(const struct attention *a)
{
	double s = (double)a->q.shape[0] / a->micro_batch;

	return 2.0 * a->micro_batch * a->num_heads * s * s * a->head_dim;
}

static void
describe_attention_fwd(struct op_call *c, const struct attention *a)
{
	c->flops = attention_flops(a);
	in(c, &a->q);
	in(c, &a->k);
	in(c, &a->v);
	out(c, "out", &a->out);
	out(c, "lse", &a->lse);
}

static void
describe_attention_max(struct op_call *c, const struct attention_max *a)
{
	c->flops = attention_flops(&a->fwd) / 2;
	in(c, &a->fwd.q);
	in(c, &a->fwd.k);
	out(c, "max", &a->max);
}

static void
describe_attention_bwd(struct op_call *c, const struct attention_grad *a)
{
	c->flops = 2.5 * attention_flops(&a->fwd);
	in(c, &a->fwd.q);
	in(c, &a->fwd.k);
	in(c, &a->fwd.v);
	in(c, &a->fwd.out);
	in(c, &a->dout);
	out(c, "dq", &a->dq);
	out(c, "dk", &a->dk);
	out(c, "dv", &a->dv);
}

static void
describe_residual_fwd(struct op_call *c, const struct residual *r)
{
	in(c, &r->x);
	in(c, &r->residual);
	out(c, "y", &r->y);
	if (r->norm) {
		out(c, "norm", &r->norm->y);
		out_copies(c, &r->norm->copies);
		out(c, "rstd", &r->norm->rstd);
	}
}

static void
describe_embedding_fwd(struct op_call *c, const struct embedding *e)
{
	in(c, &e->y);
	out(c, "y", &e->y);
}

/* The number of touched rows of the table is not known here, that of the gradient is. */
static void
describe_embedding_bwd(struct op_call *c, const struct embedding_grad *e)
{
	in(c, &e->dy);
	out(c, "dtable", &e->dtable);
}

static void
describe_xent_stats(struct op_call *c, const struct xent *x)
{
	in(c, &x->logits);
	/* Written, but not an output here: the maximum over no columns is -inf, which is correct.
	 */
	in(c, &x->stats);
}

/* Evaluation does not change the logits. */
static void
describe_xent_loss(struct op_call *c, const struct xent *x)
{
	in(c, &x->logits);
	out(c, "loss", &x->loss);
	if (x->grad_scale != 0)
		out(c, "logits", &x->logits);
}

/* Remainders are read and written, but hold no numbers that an observer could check. */
static void
describe_adamw(struct op_call *c, const struct adamw *a)
{
	in(c, &a->grad);
	in(c, &a->master);
	in(c, &a->remainder);
	in(c, &a->remainder);
	in(c, &a->exp_avg);
	in(c, &a->exp_avg_sq);
	out(c, "master", &a->master);
	out(c, "exp_avg", &a->exp_avg);
	out(c, "exp_avg_sq", &a->exp_avg_sq);
	out(c, "weight", &a->weight);
}

static void
describe_sgd(struct op_call *c, const struct sgd *a)
{
	in(c, &a->grad);
	in(c, &a->master);
	in(c, &a->momentum);
	out(c, "master", &a->master);
	out(c, "momentum", &a->momentum);
	out(c, "weight", &a->weight);
}

/* An observer checks neither places nor counts. */
static void
describe_route(struct op_call *c, const struct route *r)
{
	in(c, &r->logits);
	out(c, "weight", &r->weight);
}

static void
describe_route_grad(struct op_call *c, const struct route_grad *r)
{
	in(c, &r->fwd.logits);
	in(c, &r->dweight);
	out(c, "dlogits", &r->dlogits);
}

static void
describe_drop_rows(struct op_call *c, const struct drop_rows *d)
{
	in(c, &d->route.choice);
	in(c, &d->route.weight);
	out(c, "place", &d->route.place);
}

static void
describe_rows_by(struct op_call *c, const struct rows_by *r)
{
	in(c, &r->x);
	out(c, "y", &r->y);
}

/* The host does not know how many rows there are: as if there were all. */
static void
describe_grouped(struct op_call *c, const struct grouped *g)
{
	bool weight = g->kind == GROUPED_WEIGHT;

	c->name = weight                 ? "grouped weight gradient"
	    : g->kind == GROUPED_FORWARD ? "grouped forward"
					 : "grouped input gradient";
	c->flops = 2 * (double)tensor_elements(&g->a) * (double)(weight ? g->b : g->c).shape[1];
	in(c, &g->a);
	in(c, &g->b);
	out(c, "c", &g->c);
	if (!weight)
		window(c, &g->counts, g->first);
}

static void
describe_expert_act(struct op_call *c, const struct expert_act *a)
{
	in(c, &a->x);
	in(c, &a->weight);
	out(c, "y", &a->y);
	window(c, &a->counts, a->first);
}

static void
describe_expert_act_grad(struct op_call *c, const struct expert_act_grad *a)
{
	in(c, &a->dy);
	in(c, &a->x);
	in(c, &a->weight);
	out(c, "dx", &a->dx);
	out(c, "y", &a->y);
	out(c, "dweight", &a->dweight);
	window(c, &a->counts, a->first);
}

static void
describe_balance(struct op_call *c, const struct balance *b)
{
	in(c, &b->load);
	out(c, "master", &b->master);
	out(c, "weight", &b->weight);
}

static void
describe_quantise(struct op_call *c, const struct quantise *q)
{
	in(c, &q->x);
	out_copies(c, q);
	if (q->counts.data)
		window(c, &q->counts, q->first);
}

static void
describe_scales(struct op_call *c, const struct scales *s)
{
	in(c, &s->amax);
	in(c, &s->history);
	out(c, "history", &s->history);
	out(c, "scale", &s->scale);
}

static void
describe_axpby(struct op_call *c, const struct axpby *a)
{
	in(c, &a->x);
	if (a->b != 0)
		in(c, &a->y);
	out(c, "y", &a->y);
}

static void
describe_act_fwd(struct op_call *c, const struct act *a)
{
	in(c, &a->x);
	out(c, "y", &a->y);
	out_copies(c, &a->copies);
}

static void
describe_act_bwd(struct op_call *c, const struct act_grad *a)
{
	in(c, &a->dy);
	in(c, &a->x);
	out(c, "dx", &a->dx);
	out(c, "y", &a->y);
	out_copies(c, &a->dx_copies);
	out_copies(c, &a->y_copies);
}

static void
describe_dropout_bwd(struct op_call *c, const struct dropout_grad *g)
{
	in(c, &g->dy);
	out(c, "dx", &g->dx);
}

static void
describe_add(struct op_call *c, const struct pair *p)
{
	in(c, &p->x);
	in(c, &p->y);
	out(c, "y", &p->y);
}

/* Each term is read. */
static void
describe_sum(struct op_call *c, const struct sum *a)
{
	if (a->own >= 0)
		in(c, &a->x);
	in(c, &a->others);
	out(c, "y", &a->y);
}

static void
describe_fill(struct op_call *c, const struct fill *f)
{
	out(c, "x", &f->x);
}

static void
describe_normal(struct op_call *c, const struct normal *n)
{
	out(c, "x", &n->x);
}

static void
describe_cast(struct op_call *c, const struct pair *p)
{
	in(c, &p->x);
	out(c, "y", &p->y);
}

static void
describe_split(struct op_call *c, const struct halves *s)
{
	in(c, &s->x);
	out(c, "master", &s->master);
	out(c, "remainder", &s->remainder);
}

/* The sum of squares reads its vector once. */
static void
describe_dot(struct op_call *c, const struct dot *d)
{
	in(c, &d->x);
	out(c, "out", &d->out);
}

static void
describe_count_nonfinite(struct op_call *c, const struct pair *p)
{
	describe_add(c, p);
}

static void
describe_count_zero(struct op_call *c, const struct pair *p)
{
	describe_add(c, p);
}

static void
describe_hash(struct op_call *c, const struct pair *p)
{
	describe_cast(c, p);
}

static void
begin(struct stream *st)
{
	st->observer->before(st->observer, st);
}

static void
end(struct stream *st, const struct op_call *c)
{
	st->observer->after(st->observer, st, c);
}

/* The wrapper of an operation that takes one struct. */
#define OBSERVE(op, type) \
	static void op(struct stream *st, const struct type *a) \
	{ \
		struct op_call c = { .name = #op }; \
\
		describe_##op(&c, a); \
		begin(st); \
		st->ops->op(st, a); \
		end(st, &c); \
	}

OBSERVE(gemm, gemm)
OBSERVE(norm_fwd, norm)
OBSERVE(norm_bwd, norm_grad)
OBSERVE(rope, rope)
OBSERVE(attention_fwd, attention)
OBSERVE(attention_bwd, attention_grad)
OBSERVE(attention_max, attention_max)
OBSERVE(residual_fwd, residual)
OBSERVE(embedding_fwd, embedding)
OBSERVE(embedding_bwd, embedding_grad)
OBSERVE(xent_stats, xent)
OBSERVE(xent_loss, xent)
OBSERVE(axpby, axpby)
OBSERVE(adamw, adamw)
OBSERVE(sgd, sgd)
OBSERVE(route, route)
OBSERVE(route_grad, route_grad)
OBSERVE(drop_rows, drop_rows)
OBSERVE(rows_by, rows_by)
OBSERVE(grouped, grouped)
OBSERVE(expert_act, expert_act)
OBSERVE(expert_act_grad, expert_act_grad)
OBSERVE(balance, balance)
OBSERVE(quantise, quantise)
OBSERVE(scales, scales)

OBSERVE(act_fwd, act)
OBSERVE(act_bwd, act_grad)
OBSERVE(dropout_bwd, dropout_grad)
OBSERVE(add, pair)
OBSERVE(sum, sum)
OBSERVE(fill, fill)
OBSERVE(normal, normal)
OBSERVE(cast, pair)
OBSERVE(split, halves)
OBSERVE(dot, dot)
OBSERVE(count_nonfinite, pair)
OBSERVE(count_zero, pair)
OBSERVE(hash, pair)

static const struct ops observed_ops = {
	.gemm = gemm,
	.norm_fwd = norm_fwd,
	.norm_bwd = norm_bwd,
	.rope = rope,
	.attention_fwd = attention_fwd,
	.attention_bwd = attention_bwd,
	.attention_max = attention_max,
	.act_fwd = act_fwd,
	.act_bwd = act_bwd,
	.residual_fwd = residual_fwd,
	.dropout_bwd = dropout_bwd,
	.embedding_fwd = embedding_fwd,
	.embedding_bwd = embedding_bwd,
	.xent_stats = xent_stats,
	.xent_loss = xent_loss,
	.add = add,
	.sum = sum,
	.axpby = axpby,
	.fill = fill,
	.normal = normal,
	.cast = cast,
	.split = split,
	.dot = dot,
	.count_nonfinite = count_nonfinite,
	.count_zero = count_zero,
	.hash = hash,
	.adamw = adamw,
	.sgd = sgd,
	.route = route,
	.route_grad = route_grad,
	.drop_rows = drop_rows,
	.rows_by = rows_by,
	.grouped = grouped,
	.expert_act = expert_act,
	.expert_act_grad = expert_act_grad,
	.balance = balance,
	.quantise = quantise,
	.scales = scales,
};

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
