/* experts.c - the operations of experts: choices, the order of rows, GEMMs of several experts */
#include "lib/base/int64.h"
#include "tests/check.h"
#include "train/ops.h"

#include <math.h>
#include <string.h>

enum { ROWS = 5, EXPERTS = 4, TOPK = 2, SCOPES = 2 };

/* A router's call and its memory. */
struct routing {
	double logits[ROWS][EXPERTS], weight[ROWS][TOPK], bias[EXPERTS];
	int32_t topk[ROWS][TOPK], permutation[ROWS][TOPK], counts[EXPERTS], load[SCOPES][EXPERTS];
	struct route call;
};

static struct stream *
open_stream(void)
{
	static struct device *d;
	struct device_config config = { .num_threads = 2, .dtype = DTYPE_F64 };
	struct err e;

	if (!d)
		d = backend_cpu.open(&config, &e);
	return backend_cpu.stream(d, STREAM_COMPUTE);
}

static void
begin(struct routing *r, enum route_score score)
{
	static const double logits[ROWS][EXPERTS] = { { 1, 3, 2, 0 }, { 1, 1, 1, 1 },
		{ -1, -2, NAN, -3 }, { NAN, NAN, NAN, NAN }, { 0, 0, 5, 5 } };

	memset(r, 0, sizeof *r);
	memcpy(r->logits, logits, sizeof logits);
	r->call = (struct route){
		.logits = tensor_2d(r->logits, DTYPE_F64, ROWS, EXPERTS),
		.topk = tensor_2d(r->topk, DTYPE_I32, ROWS, TOPK),
		.weight = tensor_2d(r->weight, DTYPE_F64, ROWS, TOPK),
		.permutation = tensor_2d(r->permutation, DTYPE_I32, ROWS, TOPK),
		.counts = tensor_2d(r->counts, DTYPE_I32, 1, EXPERTS),
		.load = tensor_2d(r->load, DTYPE_I32, SCOPES, EXPERTS),
		.score = score,
	};
}

/* Of equal scores the lower number; without any that compares, experts all the same. */
static void
test_choice(void)
{
	static const int32_t want[ROWS][TOPK] = { { 1, 2 }, { 0, 1 }, { 0, 1 }, { 0, 1 },
		{ 2, 3 } };
	static const int32_t permutation[ROWS][TOPK] = { { 3, 7 }, { 0, 4 }, { 1, 5 }, { 2, 6 },
		{ 8, 9 } };
	static const int32_t counts[EXPERTS] = { 3, 4, 2, 1 };
	static const int32_t load[SCOPES][EXPERTS] = { { 1, 2, 2, 1 }, { 2, 2, 0, 0 } };
	struct routing r;

	begin(&r, ROUTE_SOFTMAX);
	open_stream()->ops->route(open_stream(), &r.call);
	CHECK(!memcmp(r.topk, want, sizeof want) &&
	    !memcmp(r.permutation, permutation, sizeof permutation));
	CHECK(!memcmp(r.counts, counts, sizeof counts) && !memcmp(r.load, load, sizeof load));
	CHECK_NEAR(r.weight[0][0], 1 / (1 + exp(-1)), 1e-12);
	CHECK_NEAR(r.weight[0][0] + r.weight[0][1], 1, 1e-12);
}

/* Four ranks, of which pairs share experts: the first two of them 0 and 1. A row goes to both ranks
 * of each of its experts, which still counts it once. */
static void
test_slices(void)
{
	enum { SLICES = 2 };
	static const int32_t want[EXPERTS * SLICES] = { 3, 4, 3, 4, 2, 1, 2, 1 };
	static const int32_t first[TOPK * SLICES] = { 3, 10, 14, 17 },
					  last[TOPK * SLICES] = { 15, 18, 16, 19 };
	int32_t permutation[ROWS][TOPK * SLICES], counts[EXPERTS * SLICES];
	double dweight[ROWS][TOPK] = { { 0 } }, dlogits[ROWS][EXPERTS], dbias[EXPERTS],
	       sums[EXPERTS + 5] = { 0 };
	struct routing r;
	struct route_grad g;

	begin(&r, ROUTE_SOFTMAX);
	r.call.permutation = tensor_2d(permutation, DTYPE_I32, ROWS, TOPK * SLICES);
	r.call.counts = tensor_2d(counts, DTYPE_I32, 4, EXPERTS * SLICES / 4);
	open_stream()->ops->route(open_stream(), &r.call);
	CHECK(!memcmp(counts, want, sizeof want) && !memcmp(permutation[0], first, sizeof first) &&
	    !memcmp(permutation[ROWS - 1], last, sizeof last));
	g = (struct route_grad){ .fwd = r.call,
		.dweight = tensor_2d(dweight, DTYPE_F64, ROWS, TOPK),
		.dlogits = tensor_2d(dlogits, DTYPE_F64, ROWS, EXPERTS),
		.dbias = tensor_1d(dbias, DTYPE_F64, EXPERTS),
		.received = r.call.counts,
		.round = 4,
		.sums = tensor_1d(sums, DTYPE_F64, EXPERTS + 5) };
	open_stream()->ops->route_grad(open_stream(), &g);
	for (int i = 0; i < EXPERTS; i++) {
		int rows = want[i < 2 ? i : i + 2];

		CHECK(dbias[i] == rows && sums[i] == rows);
	}
}

/* The weights of the other scores; a bias changes the choice alone; a choice that is made stays. */
static void
test_scores(void)
{
	struct stream *st = open_stream();
	double all = exp(1) + exp(3) + exp(2) + 1, s[2] = { 1 / (1 + exp(-3)), 0.5 };
	struct routing r;

	begin(&r, ROUTE_PRE_SOFTMAX);
	st->ops->route(st, &r.call);
	CHECK_NEAR(r.weight[0][0], exp(3) / all, 1e-12);
	CHECK_NEAR(r.weight[0][1], exp(2) / all, 1e-12);
	begin(&r, ROUTE_SIGMOID);
	r.bias[3] = 1;
	r.call.bias = tensor_1d(r.bias, DTYPE_F64, EXPERTS);
	st->ops->route(st, &r.call);
	CHECK(r.topk[0][0] == 1 && r.topk[0][1] == 3);
	CHECK_NEAR(r.weight[0][0], s[0] / (s[0] + s[1]), 1e-12);
	r.bias[3] = 0;
	r.call.chosen = true;
	st->ops->route(st, &r.call);
	CHECK(r.topk[0][1] == 3 && r.counts[3] > 1);
}

/* The losses of the balance and of z, of their definition: the rows that choose an expert by scores
 * without the bias, a constant, times its share of the row. */
static double
router_loss(const struct routing *r, const int32_t load[SCOPES][EXPERTS], double balance, double z)
{
	double loss = 0;

	for (int i = 0; i < ROWS; i++) {
		double share[EXPERTS], all = 0, exps = 0;

		for (int x = 0; x < EXPERTS; x++) {
			share[x] = r->call.score == ROUTE_SIGMOID ? 1 / (1 + exp(-r->logits[i][x]))
								  : exp(r->logits[i][x]);
			all += share[x];
			exps += exp(r->logits[i][x]);
		}
		for (int x = 0; x < EXPERTS; x++)
			loss += balance * load[i % SCOPES][x] * share[x] / all;
		loss += z * log(exps) * log(exps);
	}
	return loss;
}

/* The gradient of both losses against central differences, with a bias that moves every choice to
 * the experts that have the lowest scores: their rows are dispatched, and balance counts those of
 * the highest. */
static void
test_unbiased(enum route_score score)
{
	static const double logits[ROWS][EXPERTS] = { { 2, 1, -1, 0 }, { 0.5, 2, 0, -2 },
		{ 3, -1, 1, 0.5 }, { 1, 2, 0, 0.5 }, { 0.1, 0.4, 0.3, -0.2 } };
	static const int32_t load[SCOPES][EXPERTS] = { { 2, 2, 2, 0 }, { 2, 2, 0, 0 } };
	static const int32_t counts[EXPERTS] = { 0, 0, 5, 5 };
	struct stream *st = open_stream();
	double dlogits[ROWS][EXPERTS], dweight[ROWS][TOPK] = { { 0 } }, sums[EXPERTS + 5] = { 0 },
				       step = 1e-5;
	struct routing r;
	struct route_grad g = { .dweight = tensor_2d(dweight, DTYPE_F64, ROWS, TOPK),
		.dlogits = tensor_2d(dlogits, DTYPE_F64, ROWS, EXPERTS),
		.round = 4,
		.balance = 0.25,
		.z = 0.125,
		.sums = tensor_1d(sums, DTYPE_F64, EXPERTS + 5) };

	begin(&r, score);
	memcpy(r.logits, logits, sizeof logits);
	r.bias[2] = r.bias[3] = 10;
	r.call.bias = tensor_1d(r.bias, DTYPE_F64, EXPERTS);
	for (int again = 0; again < 2; again++) {
		r.call.chosen = again;
		memset(r.load, 0, sizeof r.load);
		st->ops->route(st, &r.call);
		CHECK(
		    !memcmp(r.load, load, sizeof load) && !memcmp(r.counts, counts, sizeof counts));
	}
	g.fwd = r.call;
	g.received = r.call.counts;
	st->ops->route_grad(st, &g);
	CHECK_NEAR(sums[EXPERTS] * g.balance, router_loss(&r, load, g.balance, 0), 1e-12);
	for (int i = 0; i < ROWS * EXPERTS; i++) {
		double *x = &r.logits[i / EXPERTS][i % EXPERTS], old = *x, up, down;

		*x = old + step;
		up = router_loss(&r, load, g.balance, g.z);
		*x = old - step;
		down = router_loss(&r, load, g.balance, g.z);
		*x = old;
		CHECK_NEAR(dlogits[i / EXPERTS][i % EXPERTS], (up - down) / (2 * step), 1e-8);
	}
}

/* Windows that the rows of two calls take, at least one each, and the most rows of a call. */
static void
test_arrived(void)
{
	struct stream *st = open_stream();
	double dlogits[ROWS][EXPERTS], dweight[ROWS][TOPK] = { { 0 } }, sums[EXPERTS + 5] = { 0 };
	int32_t counts[2][2] = { { 3, 4 }, { 0, 2 } };
	struct routing r;
	struct route_grad g = { .dweight = tensor_2d(dweight, DTYPE_F64, ROWS, TOPK),
		.dlogits = tensor_2d(dlogits, DTYPE_F64, ROWS, EXPERTS),
		.received = tensor_2d(counts, DTYPE_I32, 2, 2),
		.round = 4,
		.sums = tensor_1d(sums, DTYPE_F64, EXPERTS + 5) };

	begin(&r, ROUTE_SOFTMAX);
	st->ops->route(st, &r.call);
	g.fwd = r.call;
	st->ops->route_grad(st, &g);
	CHECK(sums[1] == r.counts[1] && sums[EXPERTS + 3] == 3 && sums[EXPERTS + 4] == 9);
	memset(counts, 0, sizeof counts);
	st->ops->route_grad(st, &g);
	CHECK(sums[1] == 2 * r.counts[1] && sums[EXPERTS + 3] == 4 && sums[EXPERTS + 4] == 9);
}

/* Experts that three and four rows chose keep two each, and one keeps the two that it has. Equal
 * weights stay in the order of rows. What was dropped once is dropped again, whatever the weights;
 * and its row comes from the others alone. */
static void
test_drop(void)
{
	static const double weight[ROWS][TOPK] = { { 0.2, 0.8 }, { 0.7, 0.3 }, { 0.5, 0.5 },
		{ 0.5, 0.5 }, { 1, 0 } };
	static const int32_t permutation[2][ROWS][TOPK] = { { { -1, 4 }, { 0, -1 }, { 1, 2 },
								{ -1, 3 }, { 5, 6 } },
		{ { 2, 4 }, { 0, 3 }, { 1, -1 }, { -1, -1 }, { 5, 6 } } };
	static const int32_t left[EXPERTS] = { 2, 2, 2, 1 };
	struct stream *st = open_stream();
	int32_t taken[EXPERTS];
	double kept[ROWS][TOPK], x[ROWS] = { 1, 2, 3, 4, 5 }, rows[ROWS * TOPK];
	struct routing r;
	struct permute by = { .x = tensor_2d(x, DTYPE_F64, ROWS, 1),
		.y = tensor_2d(rows, DTYPE_F64, ROWS * TOPK, 1) };

	begin(&r, ROUTE_SOFTMAX);
	for (int i = 0; i < 4; i++) {
		struct drop_rows d = { r.call, tensor_2d(taken, DTYPE_I32, 1, EXPERTS),
			tensor_2d(kept, DTYPE_F64, ROWS, TOPK), 2, i / 2 };

		st->ops->route(st, &r.call);
		d.route.chosen = i % 2;
		if (!d.route.chosen)
			memcpy(r.weight, weight, sizeof weight);
		st->ops->drop_rows(st, &d);
		CHECK(!memcmp(r.permutation, permutation[i / 2], sizeof *permutation));
		CHECK(!memcmp(taken, left, sizeof left));
	}
	by.permutation = r.call.permutation;
	st->ops->permute(st, &by);
	by = (struct permute){ ROWS_GATHER, by.x, by.y, by.permutation, false };
	st->ops->permute(st, &by);
	CHECK(x[0] == 2 && x[1] == 4 && x[2] == 3 && x[3] == 0 && x[4] == 10);
}

/* Rows that are spread and summed come back k times. */
static void
test_rows(void)
{
	struct stream *st = open_stream();
	float x[ROWS][3], y[ROWS * TOPK][3], z[ROWS][3];
	struct routing r;
	struct permute call = { .kind = ROWS_PERMUTE,
		.y = tensor_2d(y, DTYPE_F32, ROWS * TOPK, 3),
		.x = tensor_2d(x, DTYPE_F32, ROWS, 3) };

	begin(&r, ROUTE_SOFTMAX);
	st->ops->route(st, &r.call);
	call.permutation = r.call.permutation;
	for (int i = 0; i < ROWS * 3; i++)
		x[i / 3][i % 3] = z[i / 3][i % 3] = (float)i;
	st->ops->permute(st, &call);
	CHECK(y[3][1] == x[0][1] && y[7][2] == x[0][2] && y[9][0] == x[4][0]);
	call = (struct permute){ ROWS_GATHER, tensor_2d(z, DTYPE_F32, ROWS, 3), call.y,
		call.permutation, true };
	st->ops->permute(st, &call);
	for (int i = 0; i < ROWS * 3; i++)
		CHECK(z[i / 3][i % 3] == 3 * x[i / 3][i % 3]);
}

/* Experts of two rows from two ranks, none, and one; a row that is nobody's is neither read nor
 * written. */
static void
test_grouped(void)
{
	struct stream *st = open_stream();
	int32_t counts[2][3] = { { 1, 0, 1 }, { 1, 0, 0 } };
	double a[4][2] = { { 1, 2 }, { 3, 4 }, { 5, 6 }, { NAN, NAN } };
	double b[3][2] = { { 1, 1 }, { NAN, NAN }, { 2, 3 } }, c[4][1] = { [3] = { NAN } },
	       dw[3][2];
	struct grouped g = { .kind = GROUPED_FORWARD,
		.c = tensor_2d(c, DTYPE_F64, 4, 1),
		.a = tensor_2d(a, DTYPE_F64, 4, 2),
		.b = tensor_2d(b, DTYPE_F64, 3, 2),
		.counts = tensor_2d(counts, DTYPE_I32, 2, 3) };

	st->ops->grouped(st, &g);
	CHECK(c[0][0] == 3 && c[1][0] == 7 && c[2][0] == 28 && isnan(c[3][0]));
	g = (struct grouped){ GROUPED_WEIGHT, tensor_2d(dw, DTYPE_F64, 3, 2),
		tensor_2d(c, DTYPE_F64, 4, 1), g.a, g.counts, 0, 0 };
	for (int i = 0; i < 6; i++)
		dw[i / 2][i % 2] = NAN;
	st->ops->grouped(st, &g);
	CHECK(dw[0][0] == 3 + 21 && dw[0][1] == 6 + 28 && dw[1][0] == 0 && dw[2][1] == 28 * 6);
	g.beta = 1;
	st->ops->grouped(st, &g);
	CHECK(dw[0][0] == 48 && dw[1][1] == 0);
}

enum { ORDER = 7, HEIGHT = 3, WINDOWS = 4, WIDTH = 2 };
static const int32_t received[2][4] = { { 1, 0, 0, 2 }, { 1, 0, 3, 0 } };

/* The rows of a round of an array of more rows than the order, of which the rest is NaN. */
static struct tensor
window_of(double x[][WIDTH], int round)
{
	return tensor_2d(x[round * HEIGHT], DTYPE_F64, HEIGHT, WIDTH);
}

/* Random rows of the order, and NaN after them. */
static void
fill_order(double x[][WIDTH], int seed)
{
	for (int i = 0; i < WINDOWS * HEIGHT * WIDTH; i++)
		x[i / WIDTH][i % WIDTH] = i < ORDER * WIDTH ? sin(3.0 * i + seed) : NAN;
}

/* The GEMMs of an order in rounds of three rows, which cut experts in two; the fourth round has
 * no rows, the second expert none at all. */
static void
test_windows(enum grouped_kind kind)
{
	struct stream *st = open_stream();
	double a[WINDOWS * HEIGHT][WIDTH], b[WINDOWS * HEIGHT][WIDTH], w[4 * WIDTH][WIDTH],
	    out[2][WINDOWS * HEIGHT][WIDTH];
	bool weight = kind == GROUPED_WEIGHT;
	struct grouped g = { .kind = kind, .counts = tensor_2d((void *)received, DTYPE_I32, 2, 4) };

	fill_order(a, 1);
	fill_order(b, 2);
	for (int i = 0; i < 4 * WIDTH * WIDTH; i++)
		w[i / WIDTH][i % WIDTH] = cos(i);
	for (int cut = 0; cut < 2; cut++) {
		fill_order(out[cut], 3);
		for (int i = 0; i < (cut ? WINDOWS : 1); i++) {
			g.first = i * HEIGHT;
			g.beta = weight && i;
			g.a = window_of(a, i);
			g.b = weight ? window_of(b, i)
				     : tensor_2d(w, DTYPE_F64, (int64_t)4 * WIDTH, WIDTH);
			g.c = weight ? tensor_2d(out[cut], DTYPE_F64, (int64_t)4 * WIDTH, WIDTH)
				     : window_of(out[cut], i);
			if (!cut) {
				g.a.shape[0] = WINDOWS * HEIGHT;
				(weight ? &g.b : &g.c)->shape[0] = WINDOWS * HEIGHT;
			}
			st->ops->grouped(st, &g);
		}
	}
	for (int i = 0; i < (weight ? 4 * WIDTH : ORDER) * WIDTH; i++)
		CHECK_NEAR(out[0][i / WIDTH][i % WIDTH], out[1][i / WIDTH][i % WIDTH], 1e-14);
	for (int i = ORDER * WIDTH; i < WINDOWS * HEIGHT * WIDTH && !weight; i++)
		CHECK(isnan(out[0][i / WIDTH][i % WIDTH]) && isnan(out[1][i / WIDTH][i % WIDTH]));
}

/* What an 8-bit number at a row and place k along the sum stands for. */
static double
meant(const struct tensor *t, const struct tensor *scale, int64_t row, int64_t k)
{
	enum scale_kind kind = scale_kind(scale, t);
	int64_t at = kind == SCALE_TENSOR ? 0
	    : kind == SCALE_LINES         ? k / SCALE_BLOCK * scale->stride[0] + row
					  : row / SCALE_BLOCK * scale->stride[0] + k / SCALE_BLOCK;
	double x;

	dtype_convert(
	    &x, DTYPE_F64, (const uint8_t *)t->data + row * t->stride[0] + k, t->dtype, 1);
	return x * (double)((const float *)scale->data)[at];
}

enum { TALL = SCALE_BLOCK, ACROSS = 144, PLACES = 8, LOCAL = 4 };

/* Copies of a round of rows and of a stack of matrices, by their own largest or by blocks. */
struct copied {
	double x[PLACES * ACROSS], w[LOCAL * TALL * ACROSS];
	uint8_t rows[PLACES * ACROSS], stack[LOCAL * TALL * ACROSS],
	    transposed[ACROSS * LOCAL * TALL];
	float scale[PLACES * 2], scale_w[LOCAL * 4], scale_transposed[2 * 4], amax;
	struct quantise of_rows, of_stack;
};

/* Rows after those of experts are NaN, and bytes of their copies 0x55. */
static void
make_copies(struct copied *c, bool blocks, int64_t first, int64_t width)
{
	struct stream *st = open_stream();
	int64_t known = int64_max(0, int64_min(PLACES, ORDER - first));
	enum quantise_kind kind = blocks ? QUANTISE_BLOCK : QUANTISE_CURRENT;

	for (int i = 0; i < PLACES * ACROSS; i++)
		c->x[i] = i / width < known ? sin(7.0 * i + (double)first) : NAN;
	for (int i = 0; i < LOCAL * TALL * ACROSS; i++)
		c->w[i] = cos(i) * (1 + i / ACROSS / TALL);
	memset(c->rows, 0x55, sizeof c->rows);
	c->amax = 0;
	c->of_rows = (struct quantise){ .x = tensor_2d(c->x, DTYPE_F64, PLACES, width),
		.q = tensor_2d(c->rows, DTYPE_F8_E5M2, PLACES, width),
		.scale = tensor_1d(c->scale, DTYPE_F32, SCALE_ROW),
		.kind = kind,
		.counts = tensor_2d((void *)received, DTYPE_I32, 2, 4),
		.first = first };
	c->of_stack = (struct quantise){ .x = tensor_2d(c->w, DTYPE_F64, LOCAL * TALL, ACROSS),
		.q = tensor_2d(c->stack, DTYPE_F8_E4M3, LOCAL * TALL, ACROSS),
		.qt = tensor_2d(c->transposed, DTYPE_F8_E4M3, ACROSS, LOCAL * TALL),
		.scale = tensor_1d(c->scale_w, DTYPE_F32, SCALE_ROW),
		.scale_t = tensor_2d(c->scale_transposed, DTYPE_F32, 2, 4),
		.kind = kind };
	if (blocks) {
		c->of_rows.scale = tensor_2d(c->scale, DTYPE_F32, (width + 127) / 128, PLACES);
		c->of_stack.scale = tensor_2d(c->scale_w, DTYPE_F32, LOCAL, 4);
	} else {
		c->of_rows.amax = tensor_1d(&c->amax, DTYPE_F32, 1);
	}
	st->ops->quantise(st, &c->of_rows);
	st->ops->quantise(st, &c->of_stack);
	for (int64_t i = known * width; i < PLACES * width; i++)
		CHECK(c->rows[i] == 0x55);
	CHECK(c->amax <= 1);
}

/* GEMMs of 8-bit rows with the matrices of their experts: those of what the copies stand for, and
 * nothing after them. */
static void
test_grouped_8_bits(enum grouped_kind kind, bool blocks, int64_t first)
{
	static struct copied c;
	static double out[PLACES * ACROSS];
	struct stream *st = open_stream();
	bool forward = kind == GROUPED_FORWARD;
	int64_t depth = forward ? ACROSS : TALL, width = forward ? TALL : ACROSS, row = -first;
	struct grouped g = { .kind = kind, .first = first };

	make_copies(&c, blocks, first, depth);
	for (int i = 0; i < PLACES * ACROSS; i++)
		out[i] = NAN;
	g.c = tensor_2d(out, DTYPE_F64, PLACES, width);
	g.a = c.of_rows.q;
	g.b = forward ? c.of_stack.q : c.of_stack.qt;
	g.counts = c.of_rows.counts;
	g.scale_a = blocks ? c.of_rows.scale : tensor_rows(&c.of_rows.scale, SCALE_INVERSE, 1);
	g.scale_b = !blocks ? tensor_rows(&c.of_stack.scale, SCALE_INVERSE, 1)
	    : forward       ? c.of_stack.scale
			    : c.of_stack.scale_t;
	st->ops->grouped(st, &g);
	for (int64_t i = 0; i < LOCAL; i++)
		for (int j = 0; j < received[0][i] + received[1][i]; j++, row++)
			for (int64_t n = 0; row >= 0 && row < PLACES && n < width; n++) {
				double sum = 0;

				for (int64_t k = 0; k < depth; k++)
					sum += meant(&g.a, &g.scale_a, row, k) *
					    (forward ? meant(&g.b, &g.scale_b, i * TALL + n, k)
						     : meant(&g.b, &g.scale_b, n, i * TALL + k));
				CHECK_NEAR(out[row * width + n], sum, 1e-10);
			}
	for (row = int64_max(row, 0); row < PLACES; row++)
		CHECK(isnan(out[row * width]));
}

/* The activation of experts is the activation times the weight of the row, in any round. */
static void
test_expert_act(void)
{
	struct stream *st = open_stream();
	double x[WINDOWS * HEIGHT][WIDTH], y[WINDOWS * HEIGHT][WIDTH], want[ORDER][WIDTH],
	    w[WINDOWS * HEIGHT];
	struct tensor whole = tensor_2d(want, DTYPE_F64, ORDER, WIDTH),
		      in = tensor_2d(x, DTYPE_F64, ORDER, WIDTH);

	fill_order(x, 4);
	fill_order(y, 5);
	for (int i = 0; i < WINDOWS * HEIGHT; i++)
		w[i] = i < ORDER ? 0.5 * i : NAN;
	st->ops->act_fwd(st, &(struct act){ .kind = ACT_GELU_ERF, .y = whole, .x = in });
	for (int i = 0; i < WINDOWS; i++) {
		struct expert_act act = { ACT_GELU_ERF, window_of(y, i), window_of(x, i),
			tensor_2d(&w[i * HEIGHT], DTYPE_F64, HEIGHT, 1),
			tensor_2d((void *)received, DTYPE_I32, 2, 4), (int64_t)i * HEIGHT };

		st->ops->expert_act(st, &act);
	}
	for (int i = 0; i < WINDOWS * HEIGHT * WIDTH; i++) {
		int row = i / WIDTH, column = i % WIDTH;

		if (row < ORDER)
			CHECK_NEAR(y[row][column], w[row] * want[row][column], 1e-15);
		else
			CHECK(isnan(y[row][column]));
	}
}

/* Experts with more rows than the mean are chosen less from then on; one at the mean stays. */
static void
test_balance(void)
{
	struct stream *st = open_stream();
	double master[3] = { 0.5, 0, 0 }, load[3] = { 7, 2, 3 }, weight[3];
	struct balance b = { .master = tensor_1d(master, DTYPE_F64, 3),
		.load = tensor_1d(load, DTYPE_F64, 3),
		.weight = tensor_1d(weight, DTYPE_F64, 3),
		.mean = 3,
		.rate = 0.25 };

	st->ops->balance(st, &b);
	CHECK(master[0] == 0.25 && master[1] == 0.25 && master[2] == 0);
	CHECK(!memcmp(master, weight, sizeof master));
}

/* A master in two parts moves by less than its weight shows. */
static void
test_balance_parts(void)
{
	struct stream *st = open_stream();
	uint16_t high[2] = { 0x3f80, 0x3f80 }, low[2] = { 0, 0 };
	double load[2] = { 7, 2 };
	struct balance b = { .master = tensor_1d(high, DTYPE_BF16, 2),
		.low_bits = tensor_1d(low, DTYPE_U16, 2),
		.load = tensor_1d(load, DTYPE_F64, 2),
		.mean = 3,
		.rate = 0x1p-12 };

	st->ops->balance(st, &b);
	CHECK(high[0] == 0x3f80 && high[1] == 0x3f80);
	CHECK_NEAR(dtype_f32_from_parts(high[0], low[0]), 1 - 0x1p-12, 1e-9);
	CHECK_NEAR(dtype_f32_from_parts(high[1], low[1]), 1 + 0x1p-12, 1e-9);
}

int
main(void)
{
	test_choice();
	test_slices();
	test_scores();
	test_unbiased(ROUTE_SOFTMAX);
	test_unbiased(ROUTE_PRE_SOFTMAX);
	test_unbiased(ROUTE_SIGMOID);
	test_arrived();
	test_drop();
	test_rows();
	test_grouped();
	test_windows(GROUPED_FORWARD);
	test_windows(GROUPED_INPUT);
	test_windows(GROUPED_WEIGHT);
	for (int i = 0; i < 8; i++)
		test_grouped_8_bits(i & 1 ? GROUPED_FORWARD : GROUPED_INPUT, i & 2, i & 4 ? 3 : 0);
	test_expert_act();
	test_balance();
	test_balance_parts();
	return check_done();
}
