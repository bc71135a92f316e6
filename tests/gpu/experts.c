/*
 * experts.c [choice] [capacity] [rows] [activation] [gemm] - the operations of experts on the GPU
 * against the CPU's in double: the router and its gradients, rows in the order of experts, their
 * activations, GEMMs of the gradient of logits
 *
 * Choices, places and counts are the same numbers. Each case runs twice, to the same bits. Without
 * a GPU it prints a note and succeeds; with DEVICE=cpu the CPU in single precision is tested.
 */
#include "lib/base/int64.h"
#include "lib/base/mem.h"
#include "tests/gpu/rig.h"

/* A device and the type of its statistics. */
struct side {
	struct rig r;
	enum dtype real;
};

static struct side
side_open(const struct backend *b, enum dtype act)
{
	bool whole = act == DTYPE_F64;

	return (struct side){ rig_open(b, act), whole ? DTYPE_F64 : DTYPE_F32 };
}

static void
narrow(void *to, enum dtype t, const double *x, int64_t n)
{
	if (t != DTYPE_I32)
		dtype_convert(to, t, x, DTYPE_F64, n);
	for (int64_t i = 0; t == DTYPE_I32 && i < n; i++)
		((int32_t *)to)[i] = (int32_t)x[i];
}

static void
widen(double *x, const void *from, enum dtype t, int64_t n)
{
	if (t != DTYPE_I32)
		dtype_convert(x, DTYPE_F64, from, t, n);
	for (int64_t i = 0; t == DTYPE_I32 && i < n; i++)
		x[i] = ((const int32_t *)from)[i];
}

/* A tensor of this shape with these numbers, or none of either. */
static struct tensor
put(const struct side *s, struct tensor shape, const double *x)
{
	void *host = mem_alloc((size_t)tensor_elements(&shape), dtype_size(shape.dtype));

	if (x)
		narrow(host, shape.dtype, x, tensor_elements(&shape));
	shape = rig_tensor(&s->r, x, shape, host);
	rig_sync(&s->r);
	free(host);
	return shape;
}

/* The elements of a tensor, to free(); the tensor's own memory is released. */
static double *
take(const struct side *s, struct tensor t)
{
	size_t n = (size_t)tensor_elements(&t);
	double *x = mem_alloc(n, sizeof *x);
	void *host = mem_alloc(n, dtype_size(t.dtype));

	rig_take(&s->r, t, host);
	widen(x, host, t.dtype, (int64_t)n);
	free(host);
	return x;
}

/* n numbers of about [-3, 3], in steps of 2^-6, which every type holds. */
static double *
numbers(uint64_t seed, int64_t n)
{
	double *x = mem_alloc((size_t)n, sizeof *x);

	for (int64_t i = 0; i < n; i++)
		x[i] = (double)((int)(rig_random(&seed) % 385) - 192) / 64;
	return x;
}

/* The largest difference of two arrays, by the root mean square of the second. Both may have NaN in
 * the same places. */
static double
difference(const double *a, const double *b, int64_t n)
{
	double worst = 0, square = 0;
	int64_t numbers = 0;

	for (int64_t i = 0; i < n; i++) {
		if (isnan(a[i]) != isnan(b[i]))
			return INFINITY;
		if (isnan(b[i]))
			continue;
		worst = fmax(worst, fabs(a[i] - b[i]));
		square += b[i] * b[i];
		numbers++;
	}
	return worst == 0 ? 0 : worst / sqrt(square / (double)numbers);
}

static void
compare(const char *what, int number, const double *x[2], int64_t n, double limit)
{
	double d = difference(x[0], x[1], n);

	check_count++;
	if (d <= limit)
		return;
	check_failures++;
	fprintf(stderr, "case %d: %s differ by %g (limit %g)\n", number, what, d, limit);
}

/* --- the router ------------------------------------------------------------------------------- */

struct routing_case {
	int64_t rows, experts, topk, scopes;
	enum route_score score;
	bool bias, chosen, strange; /* strange: numbers that are none, ties, infinities */
	int64_t ranges, slices;     /* of experts on the same ranks, and of each; 0 as 1 */
};

static const struct routing_case routings[] = {
	{ 5, 4, 2, 2, ROUTE_SOFTMAX, false, false, false },
	{ 1, 3, 1, 1, ROUTE_SIGMOID, false, false, false },
	{ 300, 8, 2, 1, ROUTE_SOFTMAX, false, false, true },
	{ 257, 33, 33, 3, ROUTE_PRE_SOFTMAX, false, false, false },
	{ 1000, 64, 6, 8, ROUTE_SIGMOID, true, false, false },
	{ 1000, 64, 6, 300, ROUTE_SIGMOID, true, true, false },
	{ 515, 512, 17, 5, ROUTE_SIGMOID, true, false, false },
	{ 515, 512, 10, 1, ROUTE_SOFTMAX, false, false, true },
	{ 70, 1000, 40, 2, ROUTE_PRE_SOFTMAX, false, false, true },
	{ 4097, 128, 8, 1, ROUTE_SOFTMAX, false, true, false },
	{ 20000, 128, 8, 4, ROUTE_PRE_SOFTMAX, false, false, false },
	{ 70000, 16, 4, 2, ROUTE_SOFTMAX, false, false, false },
	{ 515, 12, 3, 1, ROUTE_SOFTMAX, false, false, false, 3, 2 },
	{ 1000, 64, 6, 8, ROUTE_SIGMOID, true, false, true, 4, 1 },
	{ 1000, 64, 6, 8, ROUTE_SIGMOID, true, true, false, 1, 8 },
	{ 1030, 1024, 8, 1, ROUTE_SOFTMAX, false, false, false, 128, 4 },
};

/* What a case makes: by the names of struct route and struct route_grad. */
enum { CHOICE, PLACE, COUNTS, LOAD, WEIGHT, DLOGITS, DBIAS, SUMS, MADE };
static const char *const made_name[MADE] = { "choices", "places", "counts", "loads", "weights",
	"gradients", "gradients of biases", "sums" };

struct routed {
	double *made[MADE];
	int64_t count[MADE];
};

/* Logits in steps, so that scores that differ do so in every type; rows of ties, of what does not
 * compare, and of infinities where they are asked for. */
static double *
logits_of(const struct routing_case *c)
{
	double *z = numbers(1, c->rows * c->experts);

	for (int64_t i = 0; c->strange && i < c->rows * c->experts; i++) {
		int64_t row = i / c->experts, x = i % c->experts;

		if (row % 5 == 1)
			z[i] = x % 3 ? 0.0 : -0.0;
		if (row % 5 == 2 && x % 4)
			z[i] = NAN;
		if (row % 5 == 3)
			z[i] = NAN;
		if (row % 5 == 4 && x % 4 == 1)
			z[i] = -INFINITY;
	}
	return z;
}

/* Any experts, in rising order. */
static double *
choice_of(const struct routing_case *c)
{
	double *x = mem_alloc((size_t)(c->rows * c->topk), sizeof *x);
	uint64_t state = 3;

	for (int64_t row = 0; row < c->rows; row++) {
		int64_t from = rig_random(&state) % (c->experts - c->topk + 1);

		for (int64_t j = 0; j < c->topk; j++)
			x[row * c->topk + j] = (double)(from + j);
	}
	return x;
}

static struct route
route_call(const struct side *s, const struct routing_case *c, const double *zeros)
{
	double *logits = logits_of(c), *bias = numbers(2, c->experts), *choice = choice_of(c);
	struct tensor chosen = tensor_2d(NULL, DTYPE_I32, c->rows, c->topk);
	int64_t ranges = int64_max(1, c->ranges), slices = int64_max(1, c->slices);
	struct route r = {
		.logits = put(s, tensor_2d(NULL, s->real, c->rows, c->experts), logits),
		.bias = put(s, tensor_1d(NULL, s->real, c->experts), c->bias ? bias : NULL),
		.choice = put(s, chosen, choice),
		.weight = put(s, tensor_2d(NULL, s->real, c->rows, c->topk), zeros),
		.place = put(s, tensor_2d(NULL, DTYPE_I32, c->rows, c->topk * slices), zeros),
		.counts =
		    put(s, tensor_2d(NULL, DTYPE_I32, ranges * slices, c->experts / ranges), zeros),
		.load = put(s, tensor_2d(NULL, DTYPE_I32, c->scopes, c->experts), zeros),
		.score = c->score,
		.chosen = c->chosen,
	};

	free(logits);
	free(bias);
	free(choice);
	return r;
}

static void
keep(const struct side *s, struct routed *out, int what, struct tensor t)
{
	out->count[what] = tensor_elements(&t);
	out->made[what] = take(s, t);
}

/* Gradients are made twice, the second time added to where that is so. */
static struct routed
routed_by(const struct backend *b, enum dtype act, const struct routing_case *c)
{
	struct side s = side_open(b, act);
	double *zeros = mem_zalloc(
		   (size_t)(c->rows * c->experts * int64_max(1, c->slices)), sizeof *zeros),
	       *dweight = numbers(4, c->rows * c->topk);
	struct route r = route_call(&s, c, zeros);
	struct route_grad g = { .fwd = r,
		.dweight = put(&s, tensor_2d(NULL, s.real, c->rows, c->topk), dweight),
		.dlogits = put(&s, tensor_2d(NULL, s.real, c->rows, c->experts), zeros),
		.dbias = put(&s, tensor_1d(NULL, s.real, c->experts), c->bias ? zeros : NULL),
		.arriving = tensor_2d(r.counts.data, DTYPE_I32, 1, tensor_elements(&r.counts)),
		.window = 7,
		.sums = put(&s, tensor_1d(NULL, DTYPE_F64, c->experts + 5), zeros),
		.balance = 0.25,
		.z = 0.125 };
	struct routed out = { .made = { NULL } };

	s.r.st->ops->route(s.r.st, &r);
	for (int i = 0; i < 2; i++) {
		g.accumulate = i > 0;
		s.r.st->ops->route_grad(s.r.st, &g);
	}
	keep(&s, &out, CHOICE, r.choice);
	keep(&s, &out, PLACE, r.place);
	keep(&s, &out, COUNTS, r.counts);
	keep(&s, &out, LOAD, r.load);
	keep(&s, &out, WEIGHT, r.weight);
	keep(&s, &out, DLOGITS, g.dlogits);
	keep(&s, &out, SUMS, g.sums);
	if (c->bias)
		keep(&s, &out, DBIAS, g.dbias);
	rig_take(&s.r, r.logits, NULL);
	rig_take(&s.r, r.bias, NULL);
	rig_take(&s.r, g.dweight, NULL);
	b->close(s.r.d);
	free(zeros);
	free(dweight);
	return out;
}

/* Numbers of experts and rows are exact. A gradient has differences of loads from their mean, which
 * are small beside what is rounded. */
static void
test_routing(const struct backend *b, int number)
{
	static const double limit[MADE] = { 0, 0, 0, 0, 2e-6, 5e-4, 0, 1e-5 };
	const struct routing_case *c = &routings[number];
	struct routed have = routed_by(b, DTYPE_F32, c), again = routed_by(b, DTYPE_F32, c),
		      want = routed_by(&backend_cpu, DTYPE_F64, c);

	for (int i = 0; i < MADE; i++) {
		if (!have.made[i])
			continue;
		compare(made_name[i], number, (const double *[]){ have.made[i], want.made[i] },
		    have.count[i], limit[i]);
		compare("repeated", number, (const double *[]){ again.made[i], have.made[i] },
		    have.count[i], 0);
		free(have.made[i]);
		free(again.made[i]);
		free(want.made[i]);
	}
}

/* Loads below, at and above the mean. */
static double *
balanced_by(const struct backend *b, enum dtype act, enum dtype load)
{
	static const double loads[] = { 7, 2, 3, 3.5, 0 }, zeros[5] = { 0 };
	struct side s = side_open(b, act);
	struct balance call = { .master = put(&s, tensor_1d(NULL, s.real, 5), loads),
		.load = put(&s, tensor_1d(NULL, load, 5), loads),
		.weight = put(&s, tensor_1d(NULL, act, 5), zeros),
		.mean = 3,
		.rate = 0.125 };
	double *out;

	s.r.st->ops->balance(s.r.st, &call);
	out = take(&s, call.weight);
	rig_take(&s.r, call.master, NULL);
	rig_take(&s.r, call.load, NULL);
	b->close(s.r.d);
	return out;
}

static void
test_choice(const struct backend *b)
{
	for (size_t i = 0; i < sizeof routings / sizeof *routings; i++)
		test_routing(b, (int)i);
	for (int i = 0; i < 2; i++) {
		double *have = balanced_by(b, i ? DTYPE_BF16 : DTYPE_F32, DTYPE_BF16),
		       *want = balanced_by(&backend_cpu, DTYPE_F64, DTYPE_F64);

		compare("biases", i, (const double *[]){ have, want }, 5, 0);
		free(have);
		free(want);
	}
}

/* --- capacities ------------------------------------------------------------------------------- */

struct drop_case {
	struct routing_case of; /* with a choice that is made */
	int64_t capacity;
	bool by_position;
};

static const struct drop_case drops[] = {
	{ { 5, 4, 2, 1, ROUTE_SOFTMAX, false, true, false, 1, 1 }, 2, false },
	{ { 515, 12, 3, 1, ROUTE_SOFTMAX, false, true, false, 3, 2 }, 100, false },
	{ { 515, 12, 3, 1, ROUTE_SOFTMAX, false, true, false, 3, 2 }, 100, true },
	{ { 4097, 128, 8, 1, ROUTE_SOFTMAX, false, true, false, 4, 1 }, 200, false },
	{ { 9000, 6, 2, 1, ROUTE_SOFTMAX, false, true, false, 1, 4 }, 2500, false },
	{ { 300, 33, 5, 1, ROUTE_SOFTMAX, false, true, false, 1, 2 }, 1000, false },
};

enum { DROP_PLACE, DROP_TAKEN, DROP_KEPT, DROP_AGAIN, DROP_MADE };

/* Weights in steps of 2^-6, many of which are equal; then by what was kept. */
static struct routed
dropped_by(const struct backend *b, enum dtype act, const struct drop_case *c)
{
	struct side s = side_open(b, act);
	int64_t slices = int64_max(1, c->of.slices), chosen = c->of.rows * c->of.topk;
	double *zeros = mem_zalloc((size_t)(c->of.rows * c->of.experts * slices), sizeof *zeros),
	       *w = numbers(5, chosen);
	struct drop_rows d = { .route = route_call(&s, &c->of, zeros),
		.capacity = c->capacity,
		.by_position = c->by_position };
	struct tensor again = put(&s, d.route.place, zeros);
	struct routed out = { .made = { NULL } };

	for (int64_t i = 0; i < chosen; i++)
		w[i] = fabs(w[i]);
	d.taken = put(&s, d.route.counts, zeros);
	d.kept = put(&s, d.route.weight, zeros);
	s.r.st->ops->route(s.r.st, &d.route);
	rig_take(&s.r, d.route.weight, NULL);
	d.route.weight = put(&s, d.route.weight, w);
	d.route.chosen = false;
	s.r.st->ops->drop_rows(s.r.st, &d);
	s.r.st->ops->cast(s.r.st, &(struct pair){ again, d.route.place });
	d.route.chosen = true;
	d.capacity = 1;
	s.r.st->ops->route(s.r.st, &d.route);
	s.r.st->ops->drop_rows(s.r.st, &d);
	keep(&s, &out, DROP_PLACE, d.route.place);
	keep(&s, &out, DROP_TAKEN, d.taken);
	keep(&s, &out, DROP_KEPT, d.kept);
	keep(&s, &out, DROP_AGAIN, again);
	rig_take(&s.r, d.route.logits, NULL);
	rig_take(&s.r, d.route.choice, NULL);
	rig_take(&s.r, d.route.weight, NULL);
	rig_take(&s.r, d.route.counts, NULL);
	rig_take(&s.r, d.route.load, NULL);
	b->close(s.r.d);
	free(zeros);
	free(w);
	return out;
}

static void
test_drops(const struct backend *b)
{
	static const char *const name[DROP_MADE] = { "places", "rows taken", "rows kept",
		"places before" };

	for (int i = 0; i < (int)(sizeof drops / sizeof *drops); i++) {
		struct routed have = dropped_by(b, DTYPE_F32, &drops[i]),
			      want = dropped_by(&backend_cpu, DTYPE_F64, &drops[i]);

		for (int k = 0; k < DROP_MADE; k++) {
			compare(name[k], i, (const double *[]){ have.made[k], want.made[k] },
			    have.count[k], 0);
			free(have.made[k]);
			free(want.made[k]);
		}
	}
}

/* --- rows ------------------------------------------------------------------------------------- */

struct rows_case {
	int64_t rows, topk, columns;
	enum dtype dtype;
	bool accumulate; /* and some are dropped */
};

static const struct rows_case moves[] = {
	{ 7, 1, 1, DTYPE_F32, false },
	{ 1000, 8, 1, DTYPE_F32, true },
	{ 33, 2, 7, DTYPE_BF16, true },
	{ 300, 2, 100, DTYPE_F32, false },
	{ 300, 4, 96, DTYPE_F16, true },
	{ 129, 8, 2048, DTYPE_BF16, false },
	{ 129, 3, 4096, DTYPE_BF16, true },
};

/* The places of all rows in an order that looks random, or none for one in five. */
static double *
places(int64_t n, bool drop)
{
	double *x = mem_alloc((size_t)n, sizeof *x);
	uint64_t state = 5;

	for (int64_t i = 0; i < n; i++) {
		int64_t j = rig_random(&state) % (i + 1);

		x[i] = x[j];
		x[j] = (double)i;
	}
	for (int64_t i = 3; drop && i < n; i += 5)
		x[i] = -1;
	return x;
}

/* The rows of x at all their places, or the sums of what stands there. */
static double *
moved_by(const struct backend *b, enum dtype act, const struct rows_case *c, enum permute_kind kind)
{
	struct side s = side_open(b, act);
	int64_t many = c->rows * c->topk;
	double *place = places(many, c->accumulate), *x = numbers(6, many * c->columns),
	       *y = numbers(7, many * c->columns), *out;
	struct tensor few = tensor_2d(NULL, act, c->rows, c->columns),
		      all = tensor_2d(NULL, act, many, c->columns);
	struct permute r = { .kind = kind,
		.y = put(&s, kind == ROWS_PERMUTE ? all : few, y),
		.x = put(&s, kind == ROWS_PERMUTE ? few : all, x),
		.place = put(&s, tensor_2d(NULL, DTYPE_I32, c->rows, c->topk), place),
		.accumulate = kind == ROWS_GATHER && c->accumulate };

	s.r.st->ops->permute(s.r.st, &r);
	out = take(&s, r.y);
	rig_take(&s.r, r.x, NULL);
	rig_take(&s.r, r.place, NULL);
	b->close(s.r.d);
	free(place);
	free(x);
	free(y);
	return out;
}

static void
round_to(double *x, int64_t n, enum dtype t)
{
	char *stored = mem_alloc((size_t)n, dtype_size(t));

	narrow(stored, t, x, n);
	widen(x, stored, t, n);
	free(stored);
}

/* Sums of numbers in steps are exact before they are rounded. */
static void
test_rows(const struct backend *b)
{
	for (size_t i = 0; i < 2 * sizeof moves / sizeof *moves; i++) {
		const struct rows_case *c = &moves[i / 2];
		enum permute_kind kind = i % 2 ? ROWS_GATHER : ROWS_PERMUTE;
		int64_t n = c->rows * c->columns * (kind == ROWS_PERMUTE ? c->topk : 1);
		double *have = moved_by(b, c->dtype, c, kind),
		       *want = moved_by(&backend_cpu, DTYPE_F64, c, kind);

		round_to(want, n, c->dtype);
		compare(kind == ROWS_GATHER ? "sums" : "rows", (int)i / 2,
		    (const double *[]){ have, want }, n, 0);
		free(have);
		free(want);
	}
}

/* --- activations ------------------------------------------------------------------------------ */

/* A window of `rows` from row `first` of the order on, of which `live` are some expert's. */
struct act_case {
	enum act_kind kind;
	int64_t rows, first, live, columns;
	bool in_place;
};

static const struct act_case acts[] = {
	{ ACT_SWIGLU, 37, 0, 37, 24, false },
	{ ACT_SWIGLU, 37, 11, 20, 24, true },
	{ ACT_GELU_TANH, 37, 11, 0, 100, false },
	{ ACT_RELU2, 5, 1000, 5, 333, true },
	{ ACT_GEGLU_TANH, 600, 0, 1, 333, true },
	{ ACT_SWIGLU, 1100, 500, 1061, 768, true },
	{ ACT_SWIGLU, 101, 101, 100, 14336, false },
};

enum { ACT_Y, ACT_DX, ACT_REMADE, ACT_DWEIGHT, ACT_MADE };

/* What a case makes: of all rows, whose last ones are as they were. */
struct acted {
	double *made[ACT_MADE];
	int64_t count[ACT_MADE];
};

/* Of two ranks and five experts, some of which have nothing. Before the window there may be more
 * rows than there are. */
static struct tensor
counts_for(const struct side *s, const struct act_case *c)
{
	double n[10] = { 0 };

	n[1] = floor((double)(c->first + c->live) / 3);
	n[8] = (double)(c->live ? c->first + c->live : c->first / 2) - n[1];
	if (!c->live)
		n[1] = 0;
	return put(s, tensor_2d(NULL, DTYPE_I32, 2, 5), n);
}

/* Numbers for the live rows, and none after them. */
static struct tensor
put_live(const struct side *s, const struct act_case *c, struct tensor shape, uint64_t seed)
{
	double *x = numbers(seed, tensor_elements(&shape));
	struct tensor t;

	for (int64_t i = c->live * shape.shape[1]; i < tensor_elements(&shape); i++)
		x[i] = NAN;
	t = put(s, shape, x);
	free(x);
	return t;
}

static struct acted
acted_by(const struct backend *b, enum dtype act, const struct act_case *c)
{
	bool gated = c->kind == ACT_SWIGLU || c->kind == ACT_GEGLU_TANH;
	struct side s = side_open(b, act);
	struct tensor narrow_shape = tensor_2d(NULL, act, c->rows, c->columns),
		      wide_shape = tensor_2d(NULL, act, c->rows, c->columns * (gated ? 2 : 1)),
		      column = tensor_2d(NULL, s.real, c->rows, 1);
	struct expert_act a = { .kind = c->kind,
		.y = put_live(&s, c, narrow_shape, 1),
		.x = put_live(&s, c, wide_shape, 2),
		.weight = put_live(&s, c, column, 3),
		.counts = counts_for(&s, c),
		.first = c->first };
	struct expert_act_grad g = { .kind = c->kind,
		.dx = c->in_place ? a.x : put_live(&s, c, wide_shape, 4),
		.dy = put_live(&s, c, narrow_shape, 5),
		.y = put_live(&s, c, narrow_shape, 6),
		.dweight = put_live(&s, c, column, 7),
		.x = a.x,
		.weight = a.weight,
		.counts = a.counts,
		.first = c->first };
	struct tensor made[ACT_MADE] = { a.y, g.dx, g.y, g.dweight };
	struct acted out;

	s.r.st->ops->expert_act(s.r.st, &a);
	s.r.st->ops->expert_act_grad(s.r.st, &g);
	for (int i = 0; i < ACT_MADE; i++) {
		out.count[i] = tensor_elements(&made[i]);
		out.made[i] = take(&s, made[i]);
	}
	if (!c->in_place)
		rig_take(&s.r, a.x, NULL);
	rig_take(&s.r, a.weight, NULL);
	rig_take(&s.r, a.counts, NULL);
	rig_take(&s.r, g.dy, NULL);
	b->close(s.r.d);
	return out;
}

/* Rows after the last are NaN before and after. */
static void
test_act(const struct backend *b, int number, enum dtype act, double limit)
{
	static const char *const name[ACT_MADE] = { "activations", "gradients", "remade",
		"gradients of weights" };
	const struct act_case *c = &acts[number];
	struct acted have = acted_by(b, act, c), again = acted_by(b, act, c),
		     want = acted_by(&backend_cpu, DTYPE_F64, c);

	for (int i = 0; i < ACT_MADE; i++) {
		compare(name[i], number, (const double *[]){ have.made[i], want.made[i] },
		    have.count[i], i == ACT_DWEIGHT ? 1e-5 : limit);
		compare("repeated", number, (const double *[]){ again.made[i], have.made[i] },
		    have.count[i], 0);
		free(have.made[i]);
		free(again.made[i]);
		free(want.made[i]);
	}
}

/* The limits are those of the largest number's rounding, by the root mean square. */
static void
test_acts(const struct backend *b)
{
	for (int i = 0; i < (int)(sizeof acts / sizeof *acts); i++) {
		test_act(b, i, DTYPE_F32, 1e-5);
		test_act(b, i, DTYPE_BF16, 4e-2);
		test_act(b, i, DTYPE_F16, 5e-3);
	}
}

/* --- GEMMs of the gradient of logits ---------------------------------------------------------- */

/* c [m,n] (+)= a [m,k] b [k,n], of a real a; transposed, as the gradient of the router's weight. */
struct gemm_case {
	int64_t m, n, k;
	bool trans, real, add;
};

static const struct gemm_case gemms[] = {
	{ 300, 64, 8, false, false, true },
	{ 8, 64, 300, true, true, false },
	{ 9000, 96, 130, false, false, true },
	{ 130, 96, 9000, true, true, true },
	{ 33, 7, 5, true, true, true },
};

static double *
gemm_by(const struct backend *b, enum dtype act, const struct gemm_case *c)
{
	struct side s = side_open(b, act);
	double *x = numbers(1, c->m * c->k), *y = numbers(2, c->k * c->n),
	       *z = numbers(3, c->m * c->n), *out;

	for (int64_t i = 0; i < c->m * c->k; i++)
		x[i] /= 3;
	struct gemm g = { .a = put(&s,
			      c->trans ? tensor_2d(NULL, s.real, c->k, c->m)
				       : tensor_2d(NULL, s.real, c->m, c->k),
			      x),
		.b = put(&s, tensor_2d(NULL, act, c->k, c->n), y),
		.c = put(&s, tensor_2d(NULL, c->real ? s.real : act, c->m, c->n), z),
		.trans_a = c->trans,
		.alpha = 1,
		.beta = c->add };

	s.r.st->ops->gemm(s.r.st, &g);
	out = take(&s, g.c);
	rig_take(&s.r, g.a, NULL);
	rig_take(&s.r, g.b, NULL);
	b->close(s.r.d);
	free(x);
	free(y);
	free(z);
	return out;
}

/* What a real a has beyond 16 bits counts: where c is real, nothing else is rounded. */
static void
test_gemms(const struct backend *b)
{
	static const enum dtype type[] = { DTYPE_BF16, DTYPE_F16 };

	for (int i = 0; i < 2 * (int)(sizeof gemms / sizeof *gemms); i++) {
		const struct gemm_case *c = &gemms[i / 2];
		double *have = gemm_by(b, type[i % 2], c),
		       *want = gemm_by(&backend_cpu, DTYPE_F64, c);

		compare("gemm", i / 2, (const double *[]){ have, want }, c->m * c->n,
		    c->real                         ? 2e-5
			: type[i % 2] == DTYPE_BF16 ? 4e-2
						    : 5e-3);
		free(have);
		free(want);
	}
}

int
main(int argc, char **argv)
{
	const char *device = getenv("DEVICE");
	const struct backend *b = device && !strcmp(device, "cpu") ? &backend_cpu : gpu_backend();

	if (!b)
		return 0;
	if (rig_wanted(argc, argv, "choice"))
		test_choice(b);
	if (rig_wanted(argc, argv, "capacity"))
		test_drops(b);
	if (rig_wanted(argc, argv, "rows"))
		test_rows(b);
	if (rig_wanted(argc, argv, "activation"))
		test_acts(b);
	if (rig_wanted(argc, argv, "gemm"))
		test_gemms(b);
	return check_done();
}
