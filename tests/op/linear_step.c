/* linear_step.c - a linear layer with its norm, activation or residual, against sums in double */
#include "tests/op/op.h"
#include "tests/op/sides.h"

enum { BIAS = 1, NORM = 2, SHIFT = 4, LAYERNORM = 8, ACTS = 16, RESIDUAL = 32, BOUNDED = 64 };

struct step_case {
	int rows, in, out, flags;
	enum act_kind kind;
};

/* Rows that a kernel takes and more, sums of whole packs and not, columns of one turn of the warps
 * and of several, one at a time and two. */
static const struct step_case steps[] = {
	{ 1, 64, 24, 0, 0 },
	{ 1, 2048, 3072, NORM, 0 },
	{ 1, 2048, 2048, RESIDUAL, 0 },
	{ 1, 512, 9000, NORM | BIAS, 0 },
	{ 1, 2048, 1031, NORM | ACTS, ACT_SWIGLU },
	{ 2, 640, 333, NORM | SHIFT | ACTS | BIAS | BOUNDED, ACT_SWIGLU },
	{ 3, 1000, 64, NORM | ACTS, ACT_GEGLU_TANH },
	{ 4, 264, 129, NORM | ACTS | BIAS, ACT_QUICK_GEGLU },
	{ 4, 8192, 40, RESIDUAL | BIAS, 0 },
	{ 2, 77, 50, NORM | RESIDUAL, 0 },
	{ 3, 96, 31, NORM | ACTS, ACT_RELU2 },
	{ 3, 96, 31, ACTS, ACT_SWIGLU },
	{ 2, 72, 19, NORM | LAYERNORM | ACTS, ACT_SWIGLU },
	{ 5, 72, 19, NORM | RESIDUAL | BIAS, 0 },
	{ 8, 1032, 4300, NORM, 0 },
	{ 8, 520, 2200, NORM | ACTS | BIAS, ACT_SWIGLU },
	{ 9, 72, 19, NORM | ACTS, ACT_SWIGLU },
};

static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };
static const double limits[] = { 2e-5, 8e-2, 1e-2 };

enum { EPS = 5, NUMBERS = 6 };
enum number { OF_X, OF_WEIGHT, OF_BIAS, OF_NORM, OF_NORM_BIAS, OF_RESIDUAL };

/* Rows of the weight. */
static int64_t
outputs(const struct step_case *c)
{
	return c->flags & ACTS && is_gated(c->kind) ? 2LL * c->out : c->out;
}

/* Numbers that every type holds; weights are small, so that sums stay near 1. */
static void
draw(const struct step_case *c, double *x[NUMBERS])
{
	int64_t n = outputs(c),
		size[NUMBERS] = { (int64_t)c->rows * c->in, n * c->in, n, c->in, c->in,
			(int64_t)c->rows * c->out };
	int down = 1 << (int)lround(log2(sqrt(c->in)));

	for (int i = 0; i < NUMBERS; i++)
		x[i] = numbers(3 + 2 * (uint64_t)i, size[i]);
	for (int64_t i = 0; i < size[OF_WEIGHT]; i++)
		x[OF_WEIGHT][i] /= down;
}

/* What is multiplied, of row r. */
static void
expect_row(const struct step_case *c, double *const *x, int r, double *a)
{
	const double *from = x[OF_X] + (int64_t)r * c->in;
	double mean = 0, square = 0;

	for (int i = 0; i < c->in; i++)
		mean += c->flags & LAYERNORM ? from[i] / c->in : 0;
	for (int i = 0; i < c->in; i++)
		square += (from[i] - mean) * (from[i] - mean) / c->in;
	for (int i = 0; i < c->in; i++)
		a[i] = !(c->flags & NORM) ? from[i]
					  : (from[i] - mean) / sqrt(square + 1. / EPS) *
			    (x[OF_NORM][i] + (c->flags & SHIFT ? 1 : 0)) +
			(c->flags & LAYERNORM ? x[OF_NORM_BIAS][i] : 0);
}

/* To free(). */
static double *
expect(const struct step_case *c, double *const *x)
{
	const struct op_case bounds = { .kind = (int)c->kind, .cap = c->flags & BOUNDED ? 1.5 : 0 };
	int64_t n = outputs(c);
	double *y = mem_alloc((size_t)c->rows * (size_t)c->out, sizeof *y),
	       *a = mem_alloc((size_t)c->in, sizeof *a), *p = mem_alloc((size_t)n, sizeof *p);

	for (int r = 0; r < c->rows; r++) {
		expect_row(c, x, r, a);
		for (int64_t j = 0; j < n; j++) {
			p[j] = c->flags & BIAS ? x[OF_BIAS][j] : 0;
			for (int i = 0; i < c->in; i++)
				p[j] += a[i] * x[OF_WEIGHT][j * c->in + i];
		}
		for (int j = 0; j < c->out; j++)
			y[(int64_t)r * c->out + j] = c->flags & ACTS
			    ? activation(&bounds, p[j], n > c->out ? p[c->out + j] : 0)
			    : p[j] +
				(c->flags & RESIDUAL ? x[OF_RESIDUAL][(int64_t)r * c->out + j] : 0);
	}
	free(a);
	free(p);
	return y;
}

/* The norm of x, and where a backend may keep what it makes. */
static struct norm
norm_for(const struct side *s, const struct step_case *c, enum dtype t, double *const *x)
{
	struct tensor row = tensor_1d(NULL, t, c->in), stat = tensor_1d(NULL, s->real, c->rows);
	bool layer = c->flags & LAYERNORM;

	if (!(c->flags & NORM))
		return (struct norm){ .eps = 0 };
	return (
	    struct norm){ .y = rig_tensor(&s->r, true, tensor_2d(NULL, t, c->rows, c->in), NULL),
		.weight = put(s, row, x[OF_NORM]),
		.bias = put(s, row, layer ? x[OF_NORM_BIAS] : NULL),
		.mean = rig_tensor(&s->r, layer, stat, NULL),
		.rstd = rig_tensor(&s->r, true, stat, NULL),
		.eps = 1. / EPS,
		.shift = c->flags & SHIFT ? 1 : 0 };
}

/* To free(). */
static double *
made_by(const struct backend *b, enum dtype t, const struct step_case *c, double *const *x)
{
	struct side s = side_open(b, t);
	int64_t n = outputs(c);
	bool parts = c->flags & (ACTS | RESIDUAL);
	struct tensor y = tensor_2d(NULL, t, c->rows, c->out);
	struct linear_step l = { .y = rig_tensor(&s.r, true, y, NULL),
		.x = put(&s, tensor_2d(NULL, t, c->rows, c->in), x[OF_X]),
		.weight = put(&s, tensor_2d(NULL, t, n, c->in), x[OF_WEIGHT]),
		.bias = put(&s, tensor_1d(NULL, t, n), c->flags & BIAS ? x[OF_BIAS] : NULL),
		.norm = norm_for(&s, c, t, x),
		.residual = put(&s, y, c->flags & RESIDUAL ? x[OF_RESIDUAL] : NULL),
		.product = rig_tensor(&s.r, parts, tensor_2d(NULL, t, c->rows, n), NULL) };
	struct tensor taken[] = { l.x, l.weight, l.bias, l.norm.y, l.norm.weight, l.norm.bias,
		l.norm.mean, l.norm.rstd, l.residual, l.product };
	double *have;

	l.norm.x = l.x;
	if (c->flags & ACTS)
		l.act = (struct act){ .kind = c->kind,
			.y = l.y,
			.x = l.product,
			.gate = { c->flags & BOUNDED ? 1.5 : 0, c->flags & BOUNDED ? 1 : 0 } };
	s.r.st->ops->linear_step(s.r.st, &l);
	have = take(&s, l.y);
	for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
		rig_take(&s.r, taken[i], NULL);
	s.r.b->close(s.r.d);
	return have;
}

static void
test_steps(const struct backend *b)
{
	for (int i = 0; i < (int)(sizeof steps / sizeof *steps); i++) {
		const struct step_case *c = &steps[i];
		double *x[NUMBERS], *want;

		draw(c, x);
		want = expect(c, x);
		for (int t = 0; t < 3; t++) {
			double *have = made_by(b, types[t], c, x);

			side_compare("steps", 3 * i + t, (const double *[]){ have, want },
			    (int64_t)c->rows * c->out, limits[t]);
			free(have);
		}
		for (int k = 0; k < NUMBERS; k++)
			free(x[k]);
		free(want);
	}
}

const struct op_case cases[] = {
	CHECKED(CASE_BOTH, test_steps),
	{ 0 },
};
