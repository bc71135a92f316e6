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

struct upcycled {
	struct source s;
	struct source *dense;
	struct upcycle_rule rule;
	int layer; /* whose sums these are; -1: none yet */
	struct sums sums[MATRICES];
	bool *anew; /* [channels], of the expert that is read */
};

static struct upcycled *
upcycled_of(const struct source *s)
{
	return (struct upcycled *)(uintptr_t)s;
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
	i = source_index(u->dense, &of);
	if (i < 0)
		BUG("'%s' is of no parameter of the dense model", p->name);
	return &u->dense->param[i];
}

/* A router has the type of its layer's MLP. */
static const struct param *
typical_param(const struct upcycled *u, const struct param *p)
{
	if (!param_is(p, "mlp.router.weight"))
		return dense_param(u, p);
	for (int i = 0; i < u->dense->count; i++)
		if (u->dense->param[i].layer == p->layer &&
		    param_is(&u->dense->param[i], "mlp.linear_down.weight"))
			return &u->dense->param[i];
	BUG("layer %d has no MLP", p->layer);
}

static bool
find_part(const struct source *s, const struct source_part *p, struct source_stored *out)
{
	const struct upcycled *u = upcycled_of(s);
	struct source_part of = { .param = typical_param(u, p->param) };

	if (p->state || p->copy || !u->dense->kind->find(u->dense, &of, out))
		return false;
	out->copies = 1;
	return true;
}

/* --- channels --------------------------------------------------------------------------------- */

/* One pass over a matrix of the layer's MLP, whose numbers are added to the sums of their channels:
 * these are columns of down and rows of the others. */
static int
sum_matrix(struct upcycled *u, int matrix, const struct param *p, double *room, struct err *e)
{
	struct source_part whole = { .param = p, .slice = slice_whole(p->ndim, p->shape) };
	size_t bytes = (size_t)u->s.config.ffn_hidden_size * sizeof(double);
	struct sums *to = &u->sums[matrix];
	struct slabs w = { 0 };
	int rc = 0;

	memset(to->sum, 0, bytes);
	memset(to->squares, 0, bytes);
	slabs_add(&w, &whole);
	for (int64_t k = 0; k < w.count && rc == 0; k++) {
		const struct slice *slice = &w.item[k].slice;
		const double *x = room;

		rc = source_read(u->dense, &w.item[k], DTYPE_F64, room, e);
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
	double *room;
	int rc = 0;

	if (u->layer == expert->layer)
		return 0;
	u->layer = -1;
	room = mem_alloc(SLAB_ELEMENTS, sizeof *room);
	for (int i = 0; i < u->dense->count && rc == 0; i++)
		for (int m = 0; m < MATRICES && rc == 0; m++)
			if (u->dense->param[i].layer == expert->layer &&
			    param_is(&u->dense->param[i], matrices[m].dense))
				rc = sum_matrix(u, m, &u->dense->param[i], room, e);
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
	int64_t n = u->s.config.ffn_hidden_size, chosen = 0,
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
	double n = (double)(chosen * u->s.config.hidden_size), sum = 0, squares = 0, variance;

	for (int64_t i = 0; i < u->s.config.ffn_hidden_size; i++)
		if (u->anew[i]) {
			sum += of->sum[i];
			squares += of->squares[i];
		}
	*mean = sum / n;
	variance = (squares - sum * *mean) / fmax(n - 1, 1);
	*deviation = sqrt(fmax(variance, 0));
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Replaces elements of a row of a box: all, or those whose column is replaced. */
struct renewal {
	double mean, deviation;
	const bool *columns; /* NULL: all */
};

static void
renew_row(const struct upcycled *u, const struct source_part *p, int64_t row,
    const struct renewal *how, struct dtype_array dst)
{
	const int64_t at[2] = { p->slice.start[0] + row, p->slice.start[1] };
	int64_t n = p->slice.count[1];
	size_t size = dtype_size(dst.type);
	double *x = mem_alloc((size_t)n, sizeof *x);
	char *to = (char *)(uintptr_t)dst.data + (size_t)(row * n) * size;

	rng_normal(u->rule.seed, (uint64_t)(at[0] * p->param->shape[1] + at[1]), n,
	    rng_stream(p->param->name), STEP_NUMBERS, x);
	for (int64_t i = 0; i < n; i++)
		x[i] = how->mean + how->deviation * x[i];
	if (!how->columns)
		dtype_convert(to, dst.type, x, DTYPE_F64, n);
	for (int64_t i = 0; how->columns && i < n; i++)
		if (how->columns[at[1] + i])
			dtype_convert(to + (size_t)i * size, dst.type, &x[i], DTYPE_F64, 1);
	free(x);
}

/* Writes new numbers into the channels of a box that are replaced. */
static int
renew(struct upcycled *u, const struct source_part *p, struct dtype_array dst, struct err *e)
{
	int matrix = matrix_of(p->param);
	int64_t chosen;
	struct renewal how = { 0 };

	if (need_sums(u, p->param, e) < 0)
		return -1;
	chosen = choose_channels(u, p->param);
	if (chosen == 0)
		return 0;
	measure(u, matrix, chosen, &how.mean, &how.deviation);
	how.columns = matrix == DOWN ? u->anew : NULL;
	for (int64_t r = 0; r < p->slice.count[0]; r++)
		if (matrix == DOWN || u->anew[p->slice.start[0] + r])
			renew_row(u, p, r, &how, dst);
	return 0;
}

static int
read_part(struct source *s, const struct source_part *p, void *dst, struct err *e)
{
	struct upcycled *u = upcycled_of(s);
	const struct renewal noise = { .deviation = u->rule.router_std };
	struct source_part of = *p;
	struct source_stored how;

	if (!find_part(s, p, &how))
		BUG("'%s' is not held", p->param->name);
	of.param = dense_param(u, p->param);
	if (!of.param) {
		for (int64_t r = 0; r < p->slice.count[0]; r++)
			renew_row(u, p, r, &noise, (struct dtype_array){ dst, how.dtype });
		return 0;
	}
	if (u->dense->kind->read(u->dense, &of, dst, e) < 0)
		return -1;
	if (matrix_of(p->param) < 0 || u->rule.ratio == 0)
		return 0;
	return renew(u, p, (struct dtype_array){ dst, how.dtype }, e);
}

/* --- opening ---------------------------------------------------------------------------------- */

static uint64_t
dense_hash(const struct source *s)
{
	const struct source *dense = upcycled_of(s)->dense;

	return dense->kind->hash(dense);
}

static void
release(struct source *s)
{
	struct upcycled *u = upcycled_of(s);

	for (int m = 0; m < MATRICES; m++) {
		free(u->sums[m].sum);
		free(u->sums[m].squares);
	}
	free(u->anew);
}

/* Not among the kinds that a path is asked for: it has no files of its own. */
static const struct source_kind source_upcycled = {
	.name = "model to upcycle",
	.find = find_part,
	.read = read_part,
	.hash = dense_hash,
	.close = release,
};

/* The model with experts, of the width of the MLP. */
static int
set_model(struct model_config *c, const struct upcycle_rule *rule, struct err *e)
{
	if (c->num_experts)
		return err_set(e, "the model has %lld experts already", (long long)c->num_experts);
	c->num_experts = rule->num_experts;
	c->moe_router_topk = rule->topk;
	c->moe_ffn_hidden_size = c->ffn_hidden_size;
	c->moe_router_score_function = ROUTER_SCORE_SOFTMAX;
	c->moe_router_pre_softmax = false;
	return model_check(c, e);
}

struct source *
upcycled_open(struct source *dense, const struct upcycle_rule *rule, struct err *e)
{
	struct source *s = source_new(&source_upcycled, sizeof(struct upcycled), dense->path);
	struct upcycled *u = upcycled_of(s);
	size_t channels = (size_t)dense->config.ffn_hidden_size;
	struct err why;

	u->dense = dense;
	u->rule = *rule;
	u->layer = -1;
	s->config = dense->config;
	if (set_model(&s->config, rule, &why) < 0) {
		err_at(e, dense->path, 0, "%s", why.msg);
		source_close(s);
		return NULL;
	}
	for (int m = 0; m < MATRICES; m++) {
		u->sums[m].sum = mem_alloc(channels, sizeof(double));
		u->sums[m].squares = mem_alloc(channels, sizeof(double));
	}
	u->anew = mem_alloc(channels, sizeof *u->anew);
	source_set_model(s);
	str_adds(&s->state_text, dense->state_text.buf);
	if (state_parse(&s->state, s->state_text.buf, s->path, e) < 0) {
		source_close(s);
		return NULL;
	}
	return s;
}
