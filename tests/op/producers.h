/* producers.h - results that go into 8 bits as they are made are those of 16 bits and then 8, bit
 * for bit, on any backend */
#ifndef TESTS_OP_PRODUCERS_H
#define TESTS_OP_PRODUCERS_H

#include "lib/base/mem.h"
#include "tests/gpu/rig.h"
#include "tests/op/op.h"

/* What makes results: y of an activation; its gradient, and y again; y of a norm, of one whose
 * statistics are there, and of one after a residual sum. */
enum producer { MAKES_ACT, MAKES_ACT_GRAD, MAKES_NORM, MAKES_NORM_OF_STATS, MAKES_RESIDUAL_NORM };

/* Sizes are those of y. Of each result there are copies, transposes, both; `kept` stores it as
 * well. A gradient's are of dx_type; y is not stored beside it. */
struct producer_case {
	enum producer producer;
	int kind; /* enum act_kind; of norms, 1: with a mean and a bias */
	int64_t rows, columns;
	enum quantise_kind how;
	bool y, kept, q, transposed, sums;
	enum dtype y_type, dx_type;
};

#define E4 DTYPE_F8_E4M3
#define E5 DTYPE_F8_E5M2
static const struct producer_case producer_cases[] = {
	{ MAKES_ACT, ACT_SWIGLU, 20, 48, QUANTISE_DELAYED, true, false, true, false, false, E4,
	    E4 },
	{ MAKES_ACT, ACT_SWIGLU, 272, 656, QUANTISE_DELAYED, true, true, true, true, false, E4,
	    E4 },
	{ MAKES_ACT, ACT_GEGLU_TANH, 144, 128, QUANTISE_CURRENT, true, false, true, true, false, E5,
	    E4 },
	{ MAKES_ACT, ACT_GELU_ERF, 128, 400, QUANTISE_BLOCK, true, true, true, false, false, E4,
	    E4 },
	{ MAKES_ACT, ACT_GELU_TANH, 400, 144, QUANTISE_BLOCK, true, false, true, true, false, E4,
	    E4 },
	{ MAKES_ACT, ACT_SWIGLU, 1040, 1296, QUANTISE_BLOCK, true, false, false, true, false, E4,
	    E4 },
	{ MAKES_ACT_GRAD, ACT_SWIGLU, 16, 16, QUANTISE_DELAYED, true, false, true, true, false, E4,
	    E5 },
	{ MAKES_ACT_GRAD, ACT_SWIGLU, 272, 656, QUANTISE_DELAYED, true, true, true, true, true, E4,
	    E5 },
	{ MAKES_ACT_GRAD, ACT_SWIGLU, 1040, 1296, QUANTISE_DELAYED, false, false, true, true, false,
	    E4, E4 },
	{ MAKES_ACT_GRAD, ACT_RELU2, 144, 272, QUANTISE_CURRENT, true, false, true, true, false, E4,
	    E5 },
	{ MAKES_ACT_GRAD, ACT_SWIGLU, 272, 144, QUANTISE_CURRENT, true, true, false, true, true, E4,
	    E5 },
	{ MAKES_ACT_GRAD, ACT_GELU_TANH, 272, 144, QUANTISE_DELAYED, false, true, true, false,
	    false, E4, E5 },
	{ MAKES_ACT_GRAD, ACT_GEGLU_TANH, 144, 80, QUANTISE_DELAYED, true, true, true, true, false,
	    E5, E4 },
	{ MAKES_ACT_GRAD, ACT_SWIGLU, 16, 128, QUANTISE_BLOCK, true, false, true, true, false, E4,
	    E4 },
	{ MAKES_ACT_GRAD, ACT_SWIGLU, 1040, 640, QUANTISE_BLOCK, true, true, true, true, true, E4,
	    E5 },
	{ MAKES_ACT_GRAD, ACT_GELU_ERF, 400, 144, QUANTISE_BLOCK, true, false, true, true, false,
	    E4, E4 },
	{ MAKES_ACT_GRAD, ACT_GEGLU_TANH, 272, 256, QUANTISE_BLOCK, true, false, false, true, false,
	    E5, E5 },
	{ MAKES_NORM, 0, 20, 48, QUANTISE_DELAYED, true, false, true, false, false, E4, E4 },
	{ MAKES_NORM, 1, 272, 656, QUANTISE_CURRENT, true, true, true, true, false, E4, E4 },
	{ MAKES_NORM_OF_STATS, 0, 272, 656, QUANTISE_DELAYED, true, false, false, true, false, E4,
	    E4 },
	{ MAKES_NORM_OF_STATS, 1, 400, 144, QUANTISE_BLOCK, true, true, true, true, false, E4, E4 },
	{ MAKES_NORM_OF_STATS, 0, 1040, 4096, QUANTISE_BLOCK, true, false, false, true, false, E4,
	    E4 },
	{ MAKES_RESIDUAL_NORM, 0, 528, 4096, QUANTISE_DELAYED, true, false, true, false, false, E4,
	    E4 },
	{ MAKES_RESIDUAL_NORM, 1, 272, 656, QUANTISE_BLOCK, true, false, true, true, false, E4,
	    E4 },
	{ MAKES_RESIDUAL_NORM, 0, 144, 9216, QUANTISE_CURRENT, true, true, true, false, false, E5,
	    E4 },
};
#undef E4
#undef E5

static inline bool
producer_gated(const struct producer_case *c)
{
	return c->producer < MAKES_NORM && is_gated(c->kind);
}

/* A result, its copies and what comes with them, on the device; and on the host what they became.
 */
enum { PRODUCED = 7 };
static const char *const produced_names[PRODUCED] = { "the result", "its copy", "its transpose",
	"scales", "scales of the transpose", "the largest", "sums" };
struct produced {
	struct quantise q;
	bool wanted, kept;
	char *host[PRODUCED];
	size_t bytes[PRODUCED];
};

static inline void
produced_tensors(struct produced *p, struct tensor *t[PRODUCED])
{
	struct tensor *all[PRODUCED] = { &p->q.x, &p->q.q, &p->q.qt, &p->q.scale, &p->q.scale_t,
		&p->q.amax, &p->q.sums };

	memcpy(t, all, sizeof all);
}

static inline struct tensor
producer_lines(const struct rig *r, bool wanted, int64_t rows, int64_t k)
{
	int64_t lines = (k + SCALE_BLOCK - 1) / SCALE_BLOCK;

	return rig_tensor(r, wanted, tensor_2d(NULL, DTYPE_F32, lines, rows), NULL);
}

/* That of y, or of the gradient, of which alone there are sums. */
static inline struct produced
produced_new(const struct rig *r, const struct producer_case *c, bool gradient)
{
	static const float scales[2][SCALE_ROW] = { { 1.0f / 24, 24 }, { 1.0f / 300, 300 } };
	int64_t rows = c->rows, columns = c->columns * (gradient && producer_gated(c) ? 2 : 1);
	enum dtype type = gradient ? c->dx_type : c->y_type;
	bool block = c->how == QUANTISE_BLOCK,
	     wanted = gradient ? c->producer == MAKES_ACT_GRAD : c->y;
	struct produced p = {
		.q = { .x = rig_tensor(r, wanted, tensor_2d(NULL, DTYPE_BF16, rows, columns), NULL),
		    .q = rig_tensor(r, wanted && c->q, tensor_2d(NULL, type, rows, columns), NULL),
		    .qt = rig_tensor(
			r, wanted && c->transposed, tensor_2d(NULL, type, columns, rows), NULL),
		    .sums = rig_tensor(r, wanted && gradient && c->sums,
			tensor_1d(NULL, DTYPE_F32, columns), NULL),
		    .kind = c->how },
		.wanted = wanted,
		.kept = c->kept && (gradient || c->producer != MAKES_ACT_GRAD),
	};
	struct tensor *t[PRODUCED];

	if (block) {
		p.q.scale = producer_lines(r, wanted && c->q, rows, columns);
		p.q.scale_t = producer_lines(r, wanted && c->transposed, columns, rows);
	} else {
		p.q.scale =
		    rig_tensor(r, wanted, tensor_1d(NULL, DTYPE_F32, SCALE_ROW), scales[gradient]);
		p.q.amax = rig_tensor(r, wanted, tensor_1d(NULL, DTYPE_F32, 1), NULL);
	}
	rig_sync(r);
	produced_tensors(&p, t);
	for (int i = 0; i < PRODUCED; i++) {
		p.bytes[i] = t[i]->data ? tensor_bytes(t[i]) : 0;
		p.host[i] = mem_zalloc(p.bytes[i] + 1, 1);
	}
	return p;
}

static inline void
produced_read(const struct rig *r, struct produced *p)
{
	struct tensor *t[PRODUCED];

	produced_tensors(p, t);
	for (int i = 0; i < PRODUCED; i++)
		rig_take(r, *t[i], i > 0 || p->kept ? p->host[i] : NULL);
}

/* The copies of a result for the call that makes it, and the result where that stores it. */
static inline struct quantise
produced_copies(const struct produced *p, bool joined, struct tensor *kept)
{
	struct quantise none = { .kind = QUANTISE_DELAYED };

	*kept = p->q.x;
	if (joined && !p->kept)
		kept->data = NULL;
	return joined && p->wanted ? p->q : none;
}

/* A norm's y. The weight does not lie on a multiple of 16 bytes; statistics of an earlier call are
 * those of one. */
static inline void
produce_norm(const struct rig *r, const struct producer_case *c, const struct tensor x[2],
    const struct produced *result, bool joined)
{
	struct tensor vectors = tensor_2d(x[1].data, DTYPE_BF16, 2, c->columns),
		      none = { .data = NULL },
		      mean = rig_tensor(r, c->kind, tensor_1d(NULL, DTYPE_F32, c->rows), NULL),
		      rstd = rig_tensor(r, true, tensor_1d(NULL, DTYPE_F32, c->rows), NULL);
	struct tensor row[2] = { tensor_rows(&vectors, 0, 1), tensor_rows(&vectors, 1, 1) };
	struct norm n = { .x = x[0], .mean = mean, .rstd = rstd, .eps = 1e-5, .shift = 1 };
	struct residual s = { .y = x[0], .x = x[1], .residual = x[0] };

	n.weight = tensor_1d((char *)row[0].data + 2, DTYPE_BF16, c->columns);
	n.bias = c->kind ? tensor_flat(&row[1]) : none;
	n.y = result->q.x;
	if (c->producer == MAKES_NORM_OF_STATS)
		r->st->ops->norm_fwd(r->st, &n);
	n.copies = produced_copies(result, joined, &n.y);
	n.has_stats = c->producer == MAKES_NORM_OF_STATS;
	s.norm = n;
	if (c->producer == MAKES_RESIDUAL_NORM)
		r->st->ops->residual_fwd(r->st, &s);
	else
		r->st->ops->norm_fwd(r->st, &n);
	rig_sync(r);
	rig_take(r, mean, NULL);
	rig_take(r, rstd, NULL);
}

/* The gradient of an activation, and y. */
static inline void
produce_act(const struct rig *r, const struct producer_case *c, const struct tensor x[2],
    const struct produced result[2], bool joined)
{
	struct act a = { .kind = (enum act_kind)c->kind, .x = x[0] };
	struct act_grad g = { .kind = (enum act_kind)c->kind, .x = x[0], .dy = x[1] };

	a.copies = g.y_copies = produced_copies(&result[0], joined, &a.y);
	g.y = a.y;
	g.dx_copies = produced_copies(&result[1], joined, &g.dx);
	if (c->producer == MAKES_ACT)
		r->st->ops->act_fwd(r->st, &a);
	else
		r->st->ops->act_bwd(r->st, &g);
}

/* One way: by one operation, or by those that it stands for; y, then the gradient. */
static inline void
produce_by(const struct rig *r, const struct producer_case *c, const void *in,
    struct produced result[2], bool joined)
{
	int64_t wide = c->columns * (producer_gated(c) ? 2 : 1);
	const struct tensor x[2] = {
		rig_tensor(r, true, tensor_2d(NULL, DTYPE_BF16, c->rows, wide), in),
		rig_tensor(r, true, tensor_2d(NULL, DTYPE_BF16, c->rows, c->columns), in),
	};

	for (int i = 0; i < 2; i++)
		result[i] = produced_new(r, c, i);
	(c->producer < MAKES_NORM ? produce_act : produce_norm)(r, c, x, result, joined);
	for (int i = 0; i < 2; i++) {
		if (!joined && result[i].wanted)
			r->st->ops->quantise(r->st, &result[i].q);
		produced_read(r, &result[i]);
	}
	rig_take(r, x[0], NULL);
	rig_take(r, x[1], NULL);
}

/* What differs between the two ways. */
static inline void
producer_compare(int number, const char *what, const struct produced *one, struct produced *many)
{
	for (int k = 0; k < PRODUCED; k++) {
		size_t differ = 0;

		for (size_t n = 0; n < one->bytes[k]; n++)
			differ += one->host[k][n] != many->host[k][n];
		check_count++;
		if (differ) {
			check_failures++;
			fprintf(stderr, "producer %d: %zu of %zu bytes of %s of %s differ\n",
			    number, differ, one->bytes[k], produced_names[k], what);
		}
		free(one->host[k]);
		free(many->host[k]);
	}
}

/* Every case. */
static inline void
test_producers(const struct backend *b)
{
	struct rig r = rig_open(b, DTYPE_BF16);

	for (int i = 0; i < (int)(sizeof producer_cases / sizeof *producer_cases); i++) {
		const struct producer_case *c = &producer_cases[i];
		int64_t count = 2 * c->rows * c->columns;
		float *in = mem_alloc((size_t)count, sizeof *in);
		char *x = mem_alloc((size_t)count, sizeof *in);
		struct produced one[2], many[2];
		uint64_t state = (uint64_t)i;

		for (int64_t k = 0; k < count; k++)
			in[k] = ((float)rig_random(&state) - 0x1p30f) * 0x1p-28f;
		dtype_convert(x, DTYPE_BF16, in, DTYPE_F32, count);
		produce_by(&r, c, x, one, true);
		produce_by(&r, c, x, many, false);
		producer_compare(i, "y", &one[0], &many[0]);
		producer_compare(i, "the gradient", &one[1], &many[1]);
		free(in);
		free(x);
	}
	b->close(r.d);
}

#endif
