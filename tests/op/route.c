/* route.c - the choice of experts, and the order of their rows */
#include "tests/op/sides.h"
#include "tests/op/op.h"

/* --- the router ------------------------------------------------------------------------------- */

struct routing_case {
	int64_t rows, experts, topk, scopes;
	enum route_score score;
	bool bias, chosen, strange; /* strange: numbers that are none, ties, infinities */
	int64_t ranges, slices;     /* of experts on the same ranks, and of each; 0 as 1 */
	int64_t groups, group_topk, group_scores;
	double scale; /* 0 as 1 */
	bool total;   /* loads are added up, of one scope */
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
	{ 515, 64, 6, 2, ROUTE_SIGMOID, true, false, false, 1, 1, 8, 4, 2, 2.5 },
	{ 515, 64, 6, 2, ROUTE_SIGMOID, true, true, true, 1, 1, 8, 4, 2, 2.5 },
	{ 515, 256, 8, 1, ROUTE_SIGMOID, false, false, true, 4, 2, 8, 4, 2, 0.5 },
	{ 515, 160, 6, 3, ROUTE_PRE_SOFTMAX, false, false, false, 1, 1, 8, 3, 1, 16 },
	{ 515, 160, 6, 3, ROUTE_PRE_SOFTMAX, false, false, true, 1, 1, 32, 6, 3, 16 },
	{ 515, 1000, 6, 1, ROUTE_SOFTMAX, false, false, true, 1, 1, 5, 2, 3, 2 },
	{ 5, 4, 2, 1, ROUTE_PRE_SOFTMAX, .total = true },
	{ 515, 300, 8, 1, ROUTE_SIGMOID, true, .total = true },
};

/* What a case makes: by the names of struct route and struct route_grad. */
enum { CHOICE, PLACE, COUNTS, LOAD, WEIGHT, DLOGITS, DBIAS, SUMS, TOTAL, MADE };
static const char *const made_name[MADE] = { "choices", "places", "counts", "loads", "weights",
	"gradients", "gradients of biases", "sums", "totals of loads" };

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

/* Loads of earlier micro batches. */
static double *
counted(int64_t experts)
{
	double *x = mem_alloc((size_t)experts, sizeof *x);

	for (int64_t i = 0; i < experts; i++)
		x[i] = (double)(i % 7);
	return x;
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
		.topk = put(s, chosen, choice),
		.weight = put(s, tensor_2d(NULL, s->real, c->rows, c->topk), zeros),
		.permutation = put(s, tensor_2d(NULL, DTYPE_I32, c->rows, c->topk * slices), zeros),
		.counts =
		    put(s, tensor_2d(NULL, DTYPE_I32, ranges * slices, c->experts / ranges), zeros),
		.load = put(s, tensor_2d(NULL, DTYPE_I32, c->scopes, c->experts), zeros),
		.score = c->score,
		.groups = c->groups,
		.group_topk = c->group_topk,
		.group_scores = c->group_scores,
		.scale = c->scale > 0 ? c->scale : 1,
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
		   (size_t)(c->rows * c->experts * int64_max(1, c->slices) + 5), sizeof *zeros),
	       *dweight = numbers(4, c->rows * c->topk), *earlier = counted(c->experts);
	struct route r = route_call(&s, c, zeros);
	struct route_grad g = { .fwd = r,
		.total = put(&s, tensor_1d(NULL, DTYPE_F64, c->experts), c->total ? earlier : NULL),
		.dweight = put(&s, tensor_2d(NULL, s.real, c->rows, c->topk), dweight),
		.dlogits = put(&s, tensor_2d(NULL, s.real, c->rows, c->experts), zeros),
		.dbias = put(&s, tensor_1d(NULL, s.real, c->experts), c->bias ? zeros : NULL),
		.received = tensor_2d(r.counts.data, DTYPE_I32, 1, tensor_elements(&r.counts)),
		.round = 7,
		.sums = put(&s, tensor_1d(NULL, DTYPE_F64, c->experts + 5), zeros),
		.balance = 0.25,
		.z = 0.125 };
	struct routed out = { .made = { NULL } };

	s.r.st->ops->route(s.r.st, &r);
	for (int i = 0; i < 2; i++) {
		g.accumulate = i > 0;
		s.r.st->ops->route_grad(s.r.st, &g);
	}
	keep(&s, &out, CHOICE, r.topk);
	keep(&s, &out, PLACE, r.permutation);
	keep(&s, &out, COUNTS, r.counts);
	keep(&s, &out, LOAD, r.load);
	keep(&s, &out, WEIGHT, r.weight);
	keep(&s, &out, DLOGITS, g.dlogits);
	keep(&s, &out, SUMS, g.sums);
	if (c->bias)
		keep(&s, &out, DBIAS, g.dbias);
	if (c->total)
		keep(&s, &out, TOTAL, g.total);
	rig_take(&s.r, r.logits, NULL);
	rig_take(&s.r, r.bias, NULL);
	rig_take(&s.r, g.dweight, NULL);
	b->close(s.r.d);
	free(zeros);
	free(dweight);
	free(earlier);
	return out;
}

/* The mean of the loads of two micro batches is what the second one is balanced by: gradients of a
 * total, and of the same mean as the load of a scope. */
static void
mean_by_hand(const struct backend *backend)
{
	enum { ROWS = 2, EXPERTS = 2, ALL = ROWS * EXPERTS };
	struct rig r = rig_open(backend, DTYPE_F64);
	struct stream *st = r.st;
	double z[ALL] = { 0.3, -0.2, 0.1, 0.4 }, dw[ROWS] = { 0, 0 }, w[ROWS],
	       total[EXPERTS] = { 6, 2 }, sums[2][EXPERTS + 5] = { { 0 } }, dz[2][ALL];
	int32_t topk[ROWS], place[ROWS], counts[EXPERTS], load[EXPERTS];
	/* (6 + 0, 2 + 4) of two loads of four rows, and (2, 2) of one */
	static const int32_t loads[2][EXPERTS] = { { 0, 4 }, { 2, 2 } };
	struct route_grad g = { .fwd = { .logits = tensor_2d(z, DTYPE_F64, ROWS, EXPERTS),
				    .topk = tensor_2d(topk, DTYPE_I32, ROWS, 1),
				    .weight = tensor_2d(w, DTYPE_F64, ROWS, 1),
				    .permutation = tensor_2d(place, DTYPE_I32, ROWS, 1),
				    .counts = tensor_2d(counts, DTYPE_I32, 1, EXPERTS),
				    .load = tensor_2d(load, DTYPE_I32, 1, EXPERTS),
				    .score = ROUTE_PRE_SOFTMAX,
				    .scale = 1 },
		.dweight = tensor_2d(dw, DTYPE_F64, ROWS, 1),
		.received = tensor_2d(counts, DTYPE_I32, 1, EXPERTS),
		.round = ROWS,
		.balance = 0.5 };

	st->ops->route(st, &g.fwd);
	for (int i = 0; i < 2; i++) {
		memcpy(load, loads[i], sizeof load);
		g.total = tensor_1d(i ? NULL : total, DTYPE_F64, EXPERTS);
		g.dlogits = tensor_2d(dz[i], DTYPE_F64, ROWS, EXPERTS);
		g.sums = tensor_1d(sums[i], DTYPE_F64, EXPERTS + 5);
		st->ops->route_grad(st, &g);
	}
	CHECK(total[0] == 6 && total[1] == 6);
	for (int i = 0; i < ALL; i++)
		CHECK_NEAR(dz[0][i], dz[1][i], 1e-15);
	CHECK_NEAR(sums[0][EXPERTS], sums[1][EXPERTS], 1e-15);
	backend->close(r.d);
}

/* Numbers of experts and rows are exact. A gradient has differences of loads from their mean, which
 * are small beside what is rounded. */
static void
test_routing(const struct backend *b, int number)
{
	static const double limit[MADE] = { 0, 0, 0, 0, 2e-6, 5e-4, 0, 1e-5, 0 };
	const struct routing_case *c = &routings[number];
	struct routed have = routed_by(b, DTYPE_F32, c), again = routed_by(b, DTYPE_F32, c),
		      want = routed_by(&backend_cpu, DTYPE_F64, c);

	for (int i = 0; i < MADE; i++) {
		if (!have.made[i])
			continue;
		side_compare(made_name[i], number, (const double *[]){ have.made[i], want.made[i] },
		    have.count[i], limit[i]);
		side_compare("repeated", number, (const double *[]){ again.made[i], have.made[i] },
		    have.count[i], 0);
		free(have.made[i]);
		free(again.made[i]);
		free(want.made[i]);
	}
}

static void
test_choice(const struct backend *b)
{
	for (size_t i = 0; i < sizeof routings / sizeof *routings; i++)
		test_routing(b, (int)i);
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

enum { DROP_PLACE, DROP_TAKEN, DROP_KEPT, DROP_AGAIN, DROP_CHOICE, DROP_MADE };

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
	struct tensor again = put(&s, d.route.permutation, zeros);
	struct routed out = { .made = { NULL } };

	for (int64_t i = 0; i < chosen; i++)
		w[i] = fabs(w[i]);
	d.taken = put(&s, d.route.counts, zeros);
	d.kept = put(&s, d.route.weight, zeros);
	d.choice = put(&s, d.route.topk, zeros);
	s.r.st->ops->route(s.r.st, &d.route);
	rig_take(&s.r, d.route.weight, NULL);
	d.route.weight = put(&s, d.route.weight, w);
	d.route.chosen = false;
	s.r.st->ops->drop_rows(s.r.st, &d);
	s.r.st->ops->cast(s.r.st, &(struct pair){ again, d.route.permutation });
	d.route.chosen = true;
	d.capacity = 1;
	s.r.st->ops->route(s.r.st, &d.route);
	s.r.st->ops->drop_rows(s.r.st, &d);
	keep(&s, &out, DROP_PLACE, d.route.permutation);
	keep(&s, &out, DROP_TAKEN, d.taken);
	keep(&s, &out, DROP_KEPT, d.kept);
	keep(&s, &out, DROP_AGAIN, again);
	keep(&s, &out, DROP_CHOICE, d.choice);
	rig_take(&s.r, d.route.logits, NULL);
	rig_take(&s.r, d.route.topk, NULL);
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
		"places before", "choices that are kept" };

	for (int i = 0; i < (int)(sizeof drops / sizeof *drops); i++) {
		struct routed have = dropped_by(b, DTYPE_F32, &drops[i]),
			      want = dropped_by(&backend_cpu, DTYPE_F64, &drops[i]);

		for (int k = 0; k < DROP_MADE; k++) {
			side_compare(name[k], i, (const double *[]){ have.made[k], want.made[k] },
			    have.count[k], 0);
			free(have.made[k]);
			free(want.made[k]);
		}
	}
}

/* --- the experts of a host -------------------------------------------------------------------- */

struct place_case {
	int64_t rows, experts, topk, hosts, ranks, slices; /* ranks of a host */
	bool drops;
};

static const struct place_case placed[] = {
	{ 5, 4, 2, 2, 1, 1, false },
	{ 5, 4, 2, 1, 2, 1, true },
	{ 515, 12, 3, 2, 6, 2, true },
	{ 1000, 64, 6, 4, 8, 1, false },
	{ 1030, 1024, 8, 8, 16, 4, true },
	{ 4097, 128, 8, 16, 1, 1, false },
};

/* Choices of which one in seven is dropped. */
static double *
kept_choice(const struct place_case *c)
{
	double *x = choice_of(
	    &(struct routing_case){ .rows = c->rows, .experts = c->experts, .topk = c->topk });

	for (int64_t i = 3; c->drops && i < c->rows * c->topk; i += 7)
		x[i] = -1;
	return x;
}

/* By the definition: after each other the rows for the slices of the ranks, each rank's by
 * expert. */
static void
place_plainly(
    const struct place_case *c, const double *choice, int64_t host, double *place, double *count)
{
	int64_t many = c->rows * c->topk, cells = c->experts / c->hosts * c->slices,
		local = cells / c->ranks, before = 0;

	for (int64_t i = 0; i < many * c->slices; i++)
		place[i] = -1;
	for (int64_t cell = 0; cell < cells; cell++) {
		int64_t rank = cell / local, slice = rank % c->slices,
			expert =
			    host * c->experts / c->hosts + rank / c->slices * local + cell % local;

		count[cell] = 0;
		for (int64_t i = 0; i < many; i++)
			if ((int64_t)choice[i] == expert) {
				place[i * c->slices + slice] = (double)before++;
				count[cell]++;
			}
	}
}

static void
test_place(const struct backend *b, int number, int64_t host)
{
	const struct place_case *c = &placed[number];
	int64_t many = c->rows * c->topk * c->slices, local = c->experts / c->hosts,
		cells = local * c->slices;
	struct side s = side_open(b, DTYPE_F32);
	double *choice = kept_choice(c), *zeros = mem_zalloc((size_t)(many + cells), sizeof *zeros),
	       *want[2] = { numbers(1, many), numbers(1, cells) }, *have[2];
	struct place_rows p = {
		.choice = put(&s, tensor_2d(NULL, DTYPE_I32, c->rows, c->topk), choice),
		.permutation =
		    put(&s, tensor_2d(NULL, DTYPE_I32, c->rows, c->topk * c->slices), zeros),
		.counts = put(&s, tensor_2d(NULL, DTYPE_I32, c->ranks, cells / c->ranks), zeros),
		.first = host * local,
	};

	s.r.st->ops->place_rows(s.r.st, &p);
	have[0] = take(&s, p.permutation);
	have[1] = take(&s, p.counts);
	place_plainly(c, choice, host, want[0], want[1]);
	side_compare("places", number, (const double *[]){ have[0], want[0] }, many, 0);
	side_compare("rows", number, (const double *[]){ have[1], want[1] }, cells, 0);
	rig_take(&s.r, p.choice, NULL);
	b->close(s.r.d);
	for (int i = 0; i < 2; i++) {
		free(have[i]);
		free(want[i]);
	}
	free(choice);
	free(zeros);
}

static void
test_places(const struct backend *b)
{
	for (int i = 0; i < (int)(sizeof placed / sizeof *placed); i++) {
		test_place(b, i, 0);
		test_place(b, i, placed[i].hosts - 1);
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
		.permutation = put(&s, tensor_2d(NULL, DTYPE_I32, c->rows, c->topk), place),
		.accumulate = kind == ROWS_GATHER && c->accumulate };

	s.r.st->ops->permute(s.r.st, &r);
	out = take(&s, r.y);
	rig_take(&s.r, r.x, NULL);
	rig_take(&s.r, r.permutation, NULL);
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
		side_compare(kind == ROWS_GATHER ? "sums" : "rows", (int)i / 2,
		    (const double *[]){ have, want }, n, 0);
		free(have);
		free(want);
	}
}

/* --- by hand, on the CPU ---------------------------------------------------------------------- */

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
		.scale = 1,
	};
}

/* Of equal scores the lower number; without any that compares, experts all the same. */
static void
choose_by_hand(void)
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
slices_by_hand(void)
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
scores_by_hand(void)
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

/* Two groups of two experts, of which one is chosen: by its highest score the first, by the sum of
 * both the second; with equal sums the first. Loads are of the two highest of all, and weights are
 * scaled. */
static void
groups_by_hand(void)
{
	static const double logits[ROWS][EXPERTS] = { { 4, -9, 3, 2 }, { 0, 0, 0, 0 },
		{ NAN, 8, 1, 1 }, { NAN, NAN, NAN, NAN }, { 1, 6, 5, 5 } };
	static const int32_t want[2][ROWS][TOPK] = { { { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 },
							 { 0, 1 } },
		{ { 2, 3 }, { 0, 1 }, { 2, 3 }, { 0, 1 }, { 2, 3 } } };
	static const int32_t load[SCOPES][EXPERTS] = { { 1, 2, 3, 0 }, { 2, 2, 0, 0 } };
	struct stream *st = open_stream();
	struct routing r;

	for (int scores = 1; scores <= 2; scores++) {
		begin(&r, ROUTE_SOFTMAX);
		memcpy(r.logits, logits, sizeof logits);
		r.call.groups = 2;
		r.call.group_topk = 1;
		r.call.group_scores = scores;
		r.call.scale = 2.5;
		st->ops->route(st, &r.call);
		CHECK(!memcmp(r.topk, want[scores - 1], sizeof r.topk));
		CHECK(!memcmp(r.load, load, sizeof load));
		CHECK_NEAR(r.weight[4][0] + r.weight[4][1], 2.5, 1e-12);
	}
	CHECK_NEAR(r.weight[0][0], 2.5 / (1 + exp(-1)), 1e-12);
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
unbiased_by_hand(enum route_score score)
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
arrived_by_hand(void)
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
drop_by_hand(void)
{
	static const double weight[ROWS][TOPK] = { { 0.2, 0.8 }, { 0.7, 0.3 }, { 0.5, 0.5 },
		{ 0.5, 0.5 }, { 1, 0 } };
	static const int32_t permutation[2][ROWS][TOPK] = { { { -1, 4 }, { 0, -1 }, { 1, 2 },
								{ -1, 3 }, { 5, 6 } },
		{ { 2, 4 }, { 0, 3 }, { 1, -1 }, { -1, -1 }, { 5, 6 } } };
	static const int32_t left[EXPERTS] = { 2, 2, 2, 1 };
	struct stream *st = open_stream();
	int32_t taken[EXPERTS], choice[ROWS * TOPK];
	double kept[ROWS][TOPK], x[ROWS] = { 1, 2, 3, 4, 5 }, rows[ROWS * TOPK];
	struct routing r;
	struct permute by = { .x = tensor_2d(x, DTYPE_F64, ROWS, 1),
		.y = tensor_2d(rows, DTYPE_F64, ROWS * TOPK, 1) };

	begin(&r, ROUTE_SOFTMAX);
	for (int i = 0; i < 4; i++) {
		struct drop_rows d = { r.call, tensor_2d(taken, DTYPE_I32, 1, EXPERTS),
			tensor_2d(kept, DTYPE_F64, ROWS, TOPK), 2, i / 2,
			tensor_2d(choice, DTYPE_I32, ROWS, TOPK) };

		st->ops->route(st, &r.call);
		d.route.chosen = i % 2;
		if (!d.route.chosen)
			memcpy(r.weight, weight, sizeof weight);
		st->ops->drop_rows(st, &d);
		CHECK(!memcmp(r.permutation, permutation[i / 2], sizeof *permutation));
		CHECK(!memcmp(taken, left, sizeof left));
		for (int k = 0; k < ROWS * TOPK; k++)
			CHECK(choice[k] ==
			    (r.permutation[k / TOPK][k % TOPK] < 0 ? -1
								   : r.topk[k / TOPK][k % TOPK]));
	}
	by.permutation = r.call.permutation;
	st->ops->permute(st, &by);
	by = (struct permute){ ROWS_GATHER, by.x, by.y, by.permutation, false };
	st->ops->permute(st, &by);
	CHECK(x[0] == 2 && x[1] == 4 && x[2] == 3 && x[3] == 0 && x[4] == 10);
}

/* Rows that are spread and summed come back k times. */
static void
rows_by_hand(void)
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

static void
by_hand(const struct backend *b)
{
	(void)b;
	choose_by_hand();
	slices_by_hand();
	scores_by_hand();
	groups_by_hand();
	unbiased_by_hand(ROUTE_SOFTMAX);
	unbiased_by_hand(ROUTE_PRE_SOFTMAX);
	unbiased_by_hand(ROUTE_SIGMOID);
	arrived_by_hand();
	drop_by_hand();
	rows_by_hand();
}

/* --- time: 0 logits, 1 choice, 2 weights, 3 places, 4 counts, 5 load, 6 rows, 7 rows at places, 8
 * and 9 gradients of weights and logits, 10 sums; inner experts, `heads` of them a row -------- */

static void
routed_declare(struct problem *p)
{
	const struct op_case *c = p->c;

	slot_add(p, 0, SLOT_FIXED, SLOT_REAL, SHAPE(c->rows, c->inner));
	slot_add(p, 1, SLOT_IDS, 0, SHAPE(c->rows, c->heads));
	slot_add(p, 2, SLOT_SCRATCH, 0, SHAPE(c->rows, c->heads));
	slot_add(p, 3, SLOT_IDS, 0, SHAPE(c->rows, c->heads));
	slot_add(p, 4, SLOT_IDS, 0, SHAPE(1, c->inner));
	slot_add(p, 5, SLOT_IDS, 0, SHAPE(1, c->inner));
	slot_add(p, 6, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows, c->columns));
	slot_add(p, 7, SLOT_SCRATCH, SLOT_ACT, SHAPE(c->rows * c->heads, c->columns));
	slot_add(p, 8, SLOT_SCRATCH, 0, SHAPE(c->rows, c->heads));
	slot_add(p, 9, SLOT_SCRATCH, 0, SHAPE(c->rows, c->inner));
	slot_add(p, 10, SLOT_SCRATCH, SLOT_VECTOR, SHAPE(2 * (c->inner + 5), 1));
}

static void
routed_forward(struct problem *p)
{
	struct route r = { .logits = *T(0),
		.topk = *T(1),
		.weight = *T(2),
		.permutation = *T(3),
		.counts = *T(4),
		.load = *T(5),
		.score = ROUTE_SOFTMAX,
		.scale = 1 };
	struct route_grad g = { .fwd = r,
		.dweight = *T(8),
		.dlogits = *T(9),
		.balance = 0.01,
		.z = 0.001,
		.received = *T(4),
		.round = p->c->rows,
		.sums = tensor_1d(T(10)->data, DTYPE_F64, p->c->inner + 5) };
	struct permute spread = {
		.kind = ROWS_PERMUTE, .y = *T(7), .x = *T(6), .permutation = *T(3)
	};
	struct permute sum = { .kind = ROWS_GATHER, .y = *T(6), .x = *T(7), .permutation = *T(3) };

	p->ops->route(p->st, &r);
	p->ops->route_grad(p->st, &g);
	p->ops->permute(p->st, &spread);
	p->ops->permute(p->st, &sum);
}

static const struct op_test routed_test = { "route", routed_declare, routed_forward, NULL, NULL };

const struct op_case cases[] = {
	CHECKED(CASE_CUDA, test_choice),
	CHECKED(CASE_BOTH, test_drops),
	CHECKED(CASE_BOTH, test_places),
	CHECKED(CASE_BOTH, test_rows),
	CHECKED(CASE_CPU, by_hand),
	CHECKED(CASE_CPU, mean_by_hand),
	{ &routed_test, CASE_TIME, .rows = 8192, .columns = 2048, .inner = 128, .heads = 8 },
	{ &routed_test, CASE_TIME, .rows = 8192, .columns = 4096, .inner = 8, .heads = 2 },
	{ 0 },
};
