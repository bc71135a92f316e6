/*
 * upcycled.c - a dense model as a source of a model with experts
 *
 * A box of an expert's matrix is the same box of the MLP's, with new numbers where its channels are
 * replaced: rows of gate and up, columns of down. Their mean and deviation follow from sums over
 * each channel, which one pass over the layer gives for all its experts. So memory is that of a few
 * vectors, and boxes may be read in any order.
 */
#include "ckpt/upcycled.h"
#include "ckpt/slab.h"
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The matrices of an MLP and those of an expert; channels are rows of all but the last. */
enum { MATRICES = 3, DOWN = 2 };
static const struct {
	const char *dense, *expert;
} matrices[MATRICES] = {
	{ "mlp.linear_gate.weight", "mlp.experts.%d.linear_gate.weight" },
	{ "mlp.linear_up.weight", "mlp.experts.%d.linear_up.weight" },
	{ "mlp.linear_down.weight", "mlp.experts.%d.linear_down.weight" },
};

/* Steps of the counter that the seed is for. */
enum { STEP_NUMBERS, STEP_CHANNELS };

struct sums {
	double *sum, *squares; /* [channels] */
};

/* New numbers in place of those of the dense model. */
struct renewal {
	double mean, deviation;
	const bool *rows, *columns; /* where they are, by the parameter's; both NULL: all */
};

struct upcycled {
	struct derived d;
	struct upcycle_rule rule;
	int layer; /* whose sums these are; -1: none yet */
	struct sums sums[MATRICES];
	bool *anew; /* [channels], of the expert that is read */
	/* of the box that is read */
	struct renewal renewal;
	double *old;
};

static struct upcycled *
upcycled_of(const struct derived *d)
{
	return (struct upcycled *)(uintptr_t)d;
}

static struct source *
dense_of(const struct upcycled *u)
{
	return u->d.from[0];
}

/* The number of an expert's matrix; -1: the parameter is none. */
static int
matrix_of(const struct param *p)
{
	for (int m = 0; p->expert >= 0 && m < MATRICES; m++)
		if (param_is(p, matrices[m].expert))
			return m;
	return -1;
}

/* The parameter of the dense model that a parameter has its numbers of; NULL: the router. */
static const struct param *
dense_param(const struct upcycled *u, const struct param *p)
{
	int m = matrix_of(p), i;
	struct param of = *p;

	if (param_is(p, "mlp.router.weight"))
		return NULL;
	if (m >= 0) {
		of.in_layer = matrices[m].dense;
		of.expert = -1;
	}
	i = source_index(dense_of(u), &of);
	if (i < 0)
		BUG("'%s' is of no parameter of the dense model", p->name);
	return &dense_of(u)->param[i];
}

/* A router has the type of its layer's MLP. */
static const struct param *
typical_param(const struct upcycled *u, const struct param *p)
{
	const struct source *dense = dense_of(u);

	if (!param_is(p, "mlp.router.weight"))
		return dense_param(u, p);
	for (int i = 0; i < dense->count; i++)
		if (dense->param[i].layer == p->layer &&
		    param_is(&dense->param[i], "mlp.linear_down.weight"))
			return &dense->param[i];
	BUG("layer %d has no MLP", p->layer);
}

/* New numbers are computed, and rounded to the type of the old ones; the rest is copied. */
static bool
find_origin(const struct derived *d, const struct source_part *p, struct derived_origin *out)
{
	const struct upcycled *u = upcycled_of(d);
	bool anew = param_is(p->param, "mlp.router.weight") ||
	    (u->rule.ratio > 0 && matrix_of(p->param) >= 0);

	if (p->state)
		return false;
	out->param = typical_param(u, p->param);
	if (!anew)
		out->from = dense_of(u);
	else
		out->dtype = source_dtype(dense_of(u), out->param, NULL);
	return out->from || out->dtype != DTYPE_NONE;
}

/* --- channels --------------------------------------------------------------------------------- */

/* One pass over a matrix of the layer's MLP, whose numbers are added to the sums of their channels:
 * these are columns of down and rows of the others. */
static int
sum_matrix(struct upcycled *u, int matrix, const struct param *p, double *room, struct err *e)
{
	struct source_part whole = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	size_t bytes = (size_t)u->d.s.config.ffn_hidden_size * sizeof(double);
	struct sums *to = &u->sums[matrix];
	struct slabs w = { 0 };
	int rc = 0;

	memset(to->sum, 0, bytes);
	memset(to->squares, 0, bytes);
	slabs_add(&w, &whole);
	for (int64_t k = 0; k < w.count && rc == 0; k++) {
		const struct slice *slice = &w.item[k].slice;
		const double *x = room;

		rc = source_read(dense_of(u), &w.item[k], DTYPE_F64, room, e);
		for (int64_t r = 0; r < slice->count[0] && rc == 0; r++)
			for (int64_t c = 0; c < slice->count[1]; c++, x++) {
				int64_t i =
				    matrix == DOWN ? slice->start[1] + c : slice->start[0] + r;

				to->sum[i] += *x;
				to->squares[i] += *x * *x;
			}
	}
	slabs_release(&w);
	return rc;
}

/* The sums of the layer of an expert's matrix. */
static int
need_sums(struct upcycled *u, const struct param *expert, struct err *e)
{
	const struct source *dense = dense_of(u);
	double *room;
	int rc = 0;

	if (u->layer == expert->layer)
		return 0;
	u->layer = -1;
	room = mem_alloc(SLAB_ELEMENTS, sizeof *room);
	for (int i = 0; i < dense->count && rc == 0; i++)
		for (int m = 0; m < MATRICES && rc == 0; m++)
			if (dense->param[i].layer == expert->layer &&
			    param_is(&dense->param[i], matrices[m].dense))
				rc = sum_matrix(u, m, &dense->param[i], room, e);
	free(room);
	if (rc == 0)
		u->layer = expert->layer;
	return rc;
}

/* Draws the channels of an expert that are replaced: the share of all, each with equal probability.
 * Source: Knuth, The Art of Computer Programming 2, 3.4.2, algorithm S. */
static int64_t
choose_channels(struct upcycled *u, const struct param *expert)
{
	int64_t n = u->d.s.config.ffn_hidden_size, chosen = 0,
		want = (int64_t)(u->rule.ratio * (double)n);
	uint32_t stream;
	char name[64];

	snprintf(
	    name, sizeof name, "decoder.layers.%d.mlp.experts.%d", expert->layer, expert->expert);
	stream = rng_stream(name);
	for (int64_t i = 0; i < n; i++) {
		double x = (double)rng_uniform(u->rule.seed, (uint64_t)i, stream, STEP_CHANNELS);

		u->anew[i] = x * (double)(n - i) < (double)(want - chosen);
		chosen += u->anew[i];
	}
	return chosen;
}

/* Mean and standard deviation of what the chosen channels had. */
static void
measure(const struct upcycled *u, int matrix, int64_t chosen, double *mean, double *deviation)
{
	const struct sums *of = &u->sums[matrix];
	double n = (double)(chosen * u->d.s.config.hidden_size), sum = 0, squares = 0, variance;

	for (int64_t i = 0; i < u->d.s.config.ffn_hidden_size; i++)
		if (u->anew[i]) {
			sum += of->sum[i];
			squares += of->squares[i];
		}
	*mean = sum / n;
	variance = (squares - sum * *mean) / fmax(n - 1, 1);
	*deviation = sqrt(fmax(variance, 0));
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Replaces elements of a row of a parameter by new numbers: all, or those whose column is replaced.
 */
static void
renew(const struct upcycled *u, const struct param *p, const int64_t at[2], int64_t n, double *x)
{
	const struct renewal *how = &u->renewal;
	double drawn[DERIVED_STRETCH];

	rng_normal(u->rule.seed, (uint64_t)(at[0] * p->shape[1] + at[1]), n, rng_stream(p->name),
	    STEP_NUMBERS, drawn);
	for (int64_t i = 0; i < n; i++)
		if (!how->columns || how->columns[at[1] + i])
			x[i] = how->mean + how->deviation * drawn[i];
}

/* Finds which numbers of an expert's matrix are new. */
static int
find_renewal(struct upcycled *u, const struct param *p, struct err *e)
{
	struct renewal *how = &u->renewal;
	int matrix = matrix_of(p);
	int64_t chosen;

	if (need_sums(u, p, e) < 0)
		return -1;
	chosen = choose_channels(u, p);
	*(matrix == DOWN ? &how->columns : &how->rows) = u->anew;
	if (chosen > 0)
		measure(u, matrix, chosen, &how->mean, &how->deviation);
	return 0;
}

/* Reads the numbers of the dense model, unless all are new. */
static int
begin(struct derived *d, const struct source_part *p, struct err *e)
{
	struct upcycled *u = upcycled_of(d);
	int64_t n = slice_elements(&p->slice);
	struct source_part of = *p;

	u->renewal = (struct renewal){ .deviation = u->rule.router_std };
	of.param = dense_param(u, p->param);
	if (!of.param)
		return 0;
	u->old = mem_realloc(u->old, (size_t)n, sizeof *u->old);
	if (source_read(dense_of(u), &of, DTYPE_F64, u->old, e) < 0)
		return -1;
	return find_renewal(u, p->param, e);
}

/* By the rows of the stretch. */
static void
numbers(const struct derived *d, const struct derived_stretch *s, double *x)
{
	const struct upcycled *u = upcycled_of(d);
	const struct renewal *how = &u->renewal;
	const struct slice *box = &s->part->slice;
	int64_t width = box->count[1], end = s->at + s->n;

	if (how->rows || how->columns)
		memcpy(x, u->old + s->at, (size_t)s->n * sizeof *x);
	for (int64_t i = s->at, n; i < end; i += n, x += n) {
		const int64_t at[2] = { box->start[0] + i / width, box->start[1] + i % width };

		n = int64_min(width - i % width, end - i);
		if (!how->rows || how->rows[at[0]])
			renew(u, s->part->param, at, n, x);
	}
}

/* --- opening ---------------------------------------------------------------------------------- */

static void
release(struct derived *d)
{
	struct upcycled *u = upcycled_of(d);

	for (int m = 0; m < MATRICES; m++) {
		free(u->sums[m].sum);
		free(u->sums[m].squares);
	}
	free(u->anew);
	free(u->old);
}

/* The model with experts, of the width of the MLP. */
static int
set_model(struct derived *d, struct err *e)
{
	struct upcycled *u = upcycled_of(d);
	struct model_config *c = &d->s.config;
	size_t channels = (size_t)c->ffn_hidden_size;

	u->rule = *(const struct upcycle_rule *)d->rule;
	u->layer = -1;
	if (u->rule.router_std < 0)
		u->rule.router_std = c->init_method_std;
	if (c->num_experts)
		return err_at(e, d->s.path, 0, "the model has %lld experts already",
		    (long long)c->num_experts);
	if (c->mlp_bias)
		return err_at(e, d->s.path, 0, "its MLPs have biases: no experts are made of such");
	c->num_experts = u->rule.num_experts;
	c->moe_router_topk = u->rule.topk;
	c->moe_ffn_hidden_size = c->ffn_hidden_size;
	c->moe_router_score_function = ROUTER_SCORE_SOFTMAX;
	c->moe_router_pre_softmax = false;
	for (int m = 0; m < MATRICES; m++) {
		u->sums[m].sum = mem_alloc(channels, sizeof(double));
		u->sums[m].squares = mem_alloc(channels, sizeof(double));
	}
	u->anew = mem_alloc(channels, sizeof *u->anew);
	return 0;
}

const struct derived_kind derived_upcycled = {
	.name = "model to upcycle",
	.size = sizeof(struct upcycled),
	.model = set_model,
	.origin = find_origin,
	.begin = begin,
	.numbers = numbers,
	.release = release,
};
