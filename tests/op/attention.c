/* attention.c - attention */
#include "tests/op/sides.h"
#include "tests/op/op.h"

/* --- attention: 0 q, 1 k, 2 v, 3 out, 4 lse, 5 delta, 6 first with DOCUMENTS, 7 sinks with SINKS;
 * rows is S, inner the position of the first query --------------------------------------------- */
enum { DOCUMENTS = 1, SINKS = 2 };

/* Documents of 1 to about 100 tokens, different in every sample: one begins at a position with
 * probability 1 / 16, less often after position 256. */
static int64_t
document_start(int64_t sample, int64_t position)
{
	while (position > 0 &&
	    rng_uniform(17, (uint64_t)position, (uint32_t)sample, 0) >=
		(position < 256 ? 1.0f / 16 : 1.0f / 64))
		position--;
	return position;
}

/* The width of values: a case's columns, or that of queries and keys. */
static int64_t
value_dim(const struct op_case *c)
{
	return c->columns ? c->columns : c->head_dim;
}

static void
attention_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	int64_t rows = c->rows * c->batch, q = (int64_t)c->heads * c->head_dim,
		k = (int64_t)c->groups * c->head_dim;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(rows, q));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(rows + c->inner * c->batch, k));
	slot_add(p, 2, SLOT_INPUT, 0, SHAPE(rows + c->inner * c->batch, c->groups * value_dim(c)));
	slot_add(p, 3, SLOT_OUTPUT, 0, SHAPE(rows, c->heads * value_dim(c)));
	for (int i = 4; i < 6; i++)
		slot_add(p, i, SLOT_SCRATCH, 0, SHAPE((int64_t)c->batch * c->heads, c->rows));
	/* up to one that leaves little to the keys */
	if (c->flags & SINKS) {
		slot_add(p, 7, SLOT_INPUT, SLOT_REAL | VECTOR_PARAM, SHAPE(c->heads, 1));
		p->slot[7].value[c->heads - 1] = c->head_dim % 3 ? 2.5 : 8;
	}
	if (!(c->flags & DOCUMENTS))
		return;
	slot_add(p, 6, SLOT_IDS, SLOT_VECTOR, SHAPE(rows, 1));
	for (int64_t r = 0; r < rows; r++)
		p->slot[6].value[r] = (double)document_start(r % c->batch, c->inner + r / c->batch);
}

static struct attention
attention_of(struct problem *p)
{
	const struct op_case *c = p->c;

	return (struct attention){ .out = *T(3),
		.lse = *T(4),
		.q = *T(0),
		.k = *T(1),
		.v = *T(2),
		.first = *T(6),
		.sink = *T(7),
		.micro_batch = c->batch,
		.num_heads = c->heads,
		.num_groups = c->groups,
		.head_dim = c->head_dim,
		.value_dim = (int)c->columns,
		.scale = 1.3,
		.softcap = c->cap,
		.window = c->window,
		.drop = case_dropout(c, c->heads + 2) };
}

static void
attention_forward(struct problem *p)
{
	struct attention a = attention_of(p);

	p->ops->attention_fwd(p->st, &a);
}

static void
attention_backward(struct problem *p)
{
	struct attention_grad a = { .fwd = attention_of(p),
		.dout = *G(3),
		.dq = *G(0),
		.dk = *G(1),
		.dv = *G(2),
		.dsink = *G(7),
		.delta = *T(5) };

	p->ops->attention_bwd(p->st, &a);
}

/* The score of a query and a key. */
static double
score(const struct problem *p, int64_t query_row, int64_t key_row, int64_t head)
{
	int64_t d = p->c->head_dim, group = head * p->c->groups / p->c->heads;
	double sum = 0;

	for (int64_t i = 0; i < d; i++)
		sum += value_at(p, 0, query_row, head * d + i) *
		    value_at(p, 1, key_row, group * d + i);
	return capped(p, 1.3 * sum);
}

static double
expect_attention(const struct problem *p, int64_t row, int64_t column)
{
	const struct op_case *c = p->c;
	struct dropout drop = case_dropout(c, c->heads + 2);
	int64_t sample = row % c->batch, query = c->inner + row / c->batch;
	int64_t e = value_dim(c), head = column / e,
		v = head * c->groups / c->heads * e + column % e;
	double total = c->flags & SINKS ? exp(value_at(p, 7, head, 0)) : 0, sum = 0;

	for (int64_t key = 0; key <= query; key++) {
		int64_t index =
		    (((drop.first_sample + sample) * drop.width + drop.first_column + head) *
			    drop.seq_length +
			query) *
			drop.seq_length +
		    key;
		double weight = exp(score(p, row, key * c->batch + sample, head));

		if ((c->window > 0 && key <= query - c->window) ||
		    (c->flags & DOCUMENTS && key < document_start(sample, query)))
			continue;
		total += weight;
		sum += weight * value_at(p, 2, key * c->batch + sample, v) *
		    (drop.p > 0 ? drawn(&drop, index) : 1);
	}
	return sum / total;
}

static const struct op_test attention_test = { "attention", attention_declare, attention_forward,
	attention_backward, expect_attention, .slack = 2, .large_slack = 3 };

static const enum dtype types[] = { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

/* Against the CPU. */
/* The largest scores of heads in every 16-bit type and F32: the CPU's. */
static void
test_largest_scores(const struct backend *b)
{
	enum { B = 2, QUERIES = 150, KEYS = 200, HEADS = 4, GROUPS = 2, D = 40 };
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		enum dtype t = types[i];
		struct rig r = rig_open(b, t), cpu = rig_open(&backend_cpu, t);
		float found[2][HEADS] = { { 0, 0, 1e9f, 0 }, { 0, 0, 1e9f, 0 } };
		struct rig *rigs[2] = { &r, &cpu };

		for (int k = 0; k < 2; k++) {
			struct tensor q = rig_vector(rigs[k], t, B * QUERIES * HEADS * D, NULL),
				      keys = rig_vector(rigs[k], t, B * KEYS * GROUPS * D, NULL);
			struct attention_max m = {
				.fwd = { .q = tensor_2d(q.data, t, B * QUERIES, HEADS * D),
				    .k = tensor_2d(keys.data, t, B * KEYS, GROUPS * D),
				    .micro_batch = B,
				    .num_heads = HEADS,
				    .num_groups = GROUPS,
				    .head_dim = D,
				    .scale = 0.25,
				    .window = 90 },
				.max = rig_vector(rigs[k], DTYPE_F32, HEADS, found[k])
			};

			rigs[k]->st->ops->normal(rigs[k]->st, &(struct normal){ q, 1, 2, 0, 1 });
			rigs[k]->st->ops->normal(rigs[k]->st, &(struct normal){ keys, 3, 4, 0, 1 });
			rigs[k]->st->ops->attention_max(rigs[k]->st, &m);
			rig_read(rigs[k], &m.max, found[k]);
			rigs[k]->b->release(rigs[k]->d, q.data);
			rigs[k]->b->release(rigs[k]->d, keys.data);
			rigs[k]->b->release(rigs[k]->d, m.max.data);
		}
		for (int head = 0; head < HEADS; head++)
			CHECK(found[0][head] > 0 &&
			    fabsf(found[0][head] - found[1][head]) <= 1e-4f * found[1][head]);
		b->close(r.d);
		backend_cpu.close(cpu.d);
	}
}

/* The largest scores of heads, of queries that begin after the keys do, in windows, against a plain
 * loop; what was there and is larger stays. */
static void
test_scores_in(const struct backend *b, enum dtype dtype)
{
	enum { B = 2, QUERIES = 70, KEYS = 131, HEADS = 4, GROUPS = 2, D = 5, WIDTH = HEADS * D };
	struct rig r = rig_open(b, dtype);
	struct stream *st = r.st;
	enum dtype real = dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
	static double q[B * QUERIES * WIDTH], k[B * KEYS * GROUPS * D], stored[B * KEYS * WIDTH],
	    keys[B * KEYS * WIDTH];
	double max[HEADS] = { 0, 0, 1e9, 0 }, got[HEADS];
	struct attention_max m = { .fwd = { .micro_batch = B,
				       .num_heads = HEADS,
				       .num_groups = GROUPS,
				       .head_dim = D,
				       .scale = 0.5,
				       .window = 40 } };
	char out[sizeof max];

	for (int i = 0; i < B * QUERIES * WIDTH; i++)
		q[i] = sin(i * 1.7);
	for (int i = 0; i < B * KEYS * GROUPS * D; i++)
		k[i] = cos(i * 0.9) * (1 + i % 13);
	dtype_convert(stored, dtype, q, DTYPE_F64, B * QUERIES * WIDTH);
	dtype_convert(q, DTYPE_F64, stored, dtype, B * QUERIES * WIDTH);
	dtype_convert(keys, dtype, k, DTYPE_F64, B * KEYS * GROUPS * D);
	dtype_convert(k, DTYPE_F64, keys, dtype, B * KEYS * GROUPS * D);
	dtype_convert(out, real, max, DTYPE_F64, HEADS);
	m.fwd.q = tensor_2d(stored, dtype, B * QUERIES, WIDTH);
	m.fwd.k = tensor_2d(keys, dtype, B * KEYS, GROUPS * D);
	m.max = tensor_1d(out, real, HEADS);
	st->ops->attention_max(st, &m);
	dtype_convert(got, DTYPE_F64, out, real, HEADS);
	for (int row = 0; row < B * QUERIES * HEADS; row++) {
		int head = row % HEADS, at = row / HEADS / B + KEYS - QUERIES;

		for (int key = at < 39 ? 0 : at - 39; key <= at; key++) {
			const double *x = q + row / HEADS * WIDTH + head * D,
				     *y = k + (key * B + row / HEADS % B) * GROUPS * D +
			    head / 2 * D;
			double score = 0;

			for (int c = 0; c < D; c++)
				score += 0.5 * x[c] * y[c];
			max[head] = fmax(max[head], score);
		}
	}
	for (int i = 0; i < HEADS; i++)
		CHECK_NEAR(got[i], max[i], real == DTYPE_F64 ? 1e-13 : 1e-5);
	b->close(r.d);
}

static void
test_scores(const struct backend *b)
{
	test_scores_in(b, DTYPE_F64);
	test_scores_in(b, DTYPE_BF16);
}

/* --- one new position ------------------------------------------------------------------------- */

struct step_case {
	int batch, heads, groups, head_dim, value_dim;
	int64_t room, position, window;
	double cap;
	int flags;
};

/* With packs and without, heads that share keys, more room than one block takes. */
static const struct step_case steps[] = {
	{ 1, 1, 1, 1, 0, 1, 0, 0, 0, 0 },
	{ 2, 4, 2, 5, 0, 9, 6, 0, 0, DOCUMENTS },
	{ 3, 8, 2, 64, 0, 300, 271, 0, 0, DOCUMENTS },
	{ 1, 4, 1, 128, 0, 40, 39, 0, 1.5, SINKS },
	{ 2, 6, 3, 80, 0, 700, 640, 100, 0, 0 },
	{ 1, 8, 2, 64, 0, 2000, 1500, 0, 0, SINKS | DOCUMENTS },
	{ 2, 4, 4, 24, 16, 1100, 511, 0, 2, SINKS },
	{ 1, 4, 4, 192, 128, 600, 512, 0, 0, DOCUMENTS },
	{ 1, 2, 2, 256, 0, 1030, 1029, 300, 0, 0 },
	{ 8, 32, 8, 64, 0, 1300, 1290, 0, 0, DOCUMENTS },
};

static int64_t
step_value_dim(const struct step_case *c)
{
	return c->value_dim ? c->value_dim : c->head_dim;
}

/* Queries, keys and values of all positions with the new one, and sinks. */
enum { STEP_NUMBERS = 4 };

static void
step_numbers(const struct step_case *c, double *x[STEP_NUMBERS])
{
	int64_t rows = (c->position + 1) * c->batch;

	x[0] = numbers(3, (int64_t)c->batch * c->heads * c->head_dim);
	x[1] = numbers(5, rows * c->groups * c->head_dim);
	x[2] = numbers(7, rows * c->groups * step_value_dim(c));
	x[3] = numbers(11, c->heads);
}

/* The new position with its query, the place of its output, documents and sinks. */
static struct attention
step_query(const struct side *s, const struct step_case *c, enum dtype t, double *const *x)
{
	int64_t e = step_value_dim(c), b = c->batch;
	double first[8];

	for (int i = 0; i < c->batch; i++)
		first[i] = (double)document_start(i, c->position);
	return (struct attention){ .q = put(s, tensor_2d(NULL, t, b, c->heads * c->head_dim), x[0]),
		.first = put(s, tensor_1d(NULL, DTYPE_I32, b), c->flags & DOCUMENTS ? first : NULL),
		.sink = put(s, tensor_1d(NULL, s->real, c->heads), c->flags & SINKS ? x[3] : NULL),
		.out = rig_tensor(&s->r, true, tensor_2d(NULL, t, b, c->heads * e), NULL),
		.lse = rig_tensor(&s->r, true, tensor_2d(NULL, s->real, b * c->heads, 1), NULL),
		.micro_batch = c->batch,
		.num_heads = c->heads,
		.num_groups = c->groups,
		.head_dim = c->head_dim,
		.value_dim = c->value_dim,
		.scale = 0.15,
		.softcap = c->cap,
		.window = c->window };
}

/* Outputs, then log-sum-exp, to free(); the device is closed. */
static double *
step_results(struct side *s, struct attention *a)
{
	int64_t n = tensor_elements(&a->out), lines = tensor_elements(&a->lse);
	double *out = take(s, a->out), *lse = take(s, a->lse);

	out = mem_realloc(out, (size_t)(n + lines), sizeof *out);
	memcpy(out + n, lse, (size_t)lines * sizeof *lse);
	free(lse);
	rig_take(&s->r, a->q, NULL);
	rig_take(&s->r, a->k, NULL);
	rig_take(&s->r, a->v, NULL);
	rig_take(&s->r, a->first, NULL);
	rig_take(&s->r, a->sink, NULL);
	s->r.b->close(s->r.d);
	return out;
}

/* By attention of one query to all. */
static double *
step_expected(const struct step_case *c, double *const *x)
{
	struct side s = side_open(&backend_cpu, DTYPE_F64);
	struct attention a = step_query(&s, c, DTYPE_F64, x);
	int64_t rows = (c->position + 1) * c->batch;

	a.k = put(&s, tensor_2d(NULL, DTYPE_F64, rows, c->groups * c->head_dim), x[1]);
	a.v = put(&s, tensor_2d(NULL, DTYPE_F64, rows, c->groups * step_value_dim(c)), x[2]);
	s.r.st->ops->attention_fwd(s.r.st, &a);
	return step_results(&s, &a);
}

/* By a step, which finds NaN where nothing is kept yet; kept: keys and values after it, to free().
 */
static double *
step_by(const struct backend *b, enum dtype t, const struct step_case *c, double *const *x,
    double *kept[2])
{
	struct side s = side_open(b, t);
	struct attention_step a = { .fwd = step_query(&s, c, t, x) };
	int64_t width[] = { c->groups * c->head_dim, c->groups * step_value_dim(c) };
	double at = (double)c->position;
	struct tensor *own[] = { &a.fwd.k, &a.fwd.v }, *all[] = { &a.keys, &a.values };

	for (int i = 0; i < 2; i++) {
		int64_t before = c->position * c->batch * width[i],
			n = c->room * c->batch * width[i];
		double *some = mem_alloc((size_t)n, sizeof *some);

		for (int64_t k = 0; k < n; k++)
			some[k] = k < before ? x[1 + i][k] : NAN;
		*own[i] = put(&s, tensor_2d(NULL, t, c->batch, width[i]), x[1 + i] + before);
		*all[i] = put(&s, tensor_2d(NULL, t, c->room * c->batch, width[i]), some);
		free(some);
	}
	a.position = put(&s, tensor_1d(NULL, DTYPE_I32, 1), &at);
	s.r.st->ops->attention_step(s.r.st, &a);
	for (int i = 0; i < 2; i++)
		kept[i] = take(&s, *all[i]);
	rig_take(&s.r, a.position, NULL);
	return step_results(&s, &a.fwd);
}

/* A step's output is that of attention to all of the same in double, and what is kept has the new
 * position's and is as it was before that. */
static void
test_steps(const struct backend *b)
{
	static const double limits[] = { 2e-5, 3e-2, 4e-3 };

	for (int i = 0; i < 3 * (int)(sizeof steps / sizeof *steps); i++) {
		const struct step_case *c = &steps[i / 3];
		int64_t rows = (int64_t)c->batch * (c->position + 1), e = step_value_dim(c);
		double *kept[2], *x[STEP_NUMBERS], *have, *want;

		step_numbers(c, x);
		have = step_by(b, types[i % 3], c, x, kept);
		want = step_expected(c, x);
		side_compare("steps", i, (const double *[]){ have, want },
		    (int64_t)c->batch * c->heads * (e + 1), limits[i % 3]);
		CHECK(!memcmp(
		    kept[0], x[1], (size_t)(rows * c->groups * c->head_dim) * sizeof(double)));
		CHECK(!memcmp(kept[1], x[2], (size_t)(rows * c->groups * e) * sizeof(double)));
		for (int k = 0; k < STEP_NUMBERS; k++)
			free(x[k]);
		free(kept[0]);
		free(kept[1]);
		free(have);
		free(want);
	}
}

const struct op_case cases[] = {
	{ &attention_test, CASE_BOTH, .rows = 1, .batch = 1, .heads = 1, .groups = 1,
	    .head_dim = 1 },
	{ &attention_test, CASE_BOTH, .rows = 7, .batch = 3, .heads = 2, .groups = 2,
	    .head_dim = 5 },
	{ &attention_test, CASE_BOTH, .rows = 9, .batch = 2, .heads = 6, .groups = 2, .head_dim = 4,
	    .window = 3 },
	{ &attention_test, CASE_BOTH, .rows = 64, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 8, .drop = 0.3 },
	{ &attention_test, CASE_BOTH, .rows = 150, .batch = 2, .heads = 2, .groups = 1,
	    .head_dim = 8 },
	{ &attention_test, CASE_BOTH, .rows = 200, .batch = 1, .heads = 2, .groups = 2,
	    .head_dim = 16, .window = 70, .drop = 0.1 },
	{ &attention_test, CASE_BOTH, .rows = 1, .batch = 2, .heads = 1, .groups = 1, .head_dim = 3,
	    .flags = DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 50, .batch = 3, .heads = 4, .groups = 2,
	    .head_dim = 6, .flags = DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 210, .batch = 2, .heads = 2, .groups = 1,
	    .head_dim = 8, .window = 20, .drop = 0.2, .flags = DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 140, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 4, .flags = DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 1, .inner = 9, .batch = 2, .heads = 2, .groups = 1,
	    .head_dim = 4 },
	{ &attention_test, CASE_BOTH, .rows = 70, .inner = 140, .batch = 2, .heads = 4, .groups = 2,
	    .head_dim = 8 },
	{ &attention_test, CASE_BOTH, .rows = 67, .inner = 35, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 8, .window = 30, .drop = 0.2 },
	{ &attention_test, CASE_BOTH, .rows = 80, .inner = 130, .batch = 2, .heads = 2, .groups = 2,
	    .head_dim = 16, .drop = 0.1, .flags = DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 9, .batch = 2, .heads = 6, .groups = 2, .head_dim = 4,
	    .window = 3, .cap = 0.7 },
	{ &attention_test, CASE_BOTH, .rows = 150, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 8, .drop = 0.2, .cap = 2 },
	{ &attention_test, CASE_BOTH, .rows = 70, .inner = 80, .batch = 2, .heads = 2, .groups = 2,
	    .head_dim = 8, .cap = 1 },
	{ &attention_test, CASE_BOTH, .rows = 40, .batch = 2, .heads = 2, .groups = 1,
	    .head_dim = 4, .flags = SINKS },
	{ &attention_test, CASE_BOTH, .rows = 150, .batch = 2, .heads = 4, .groups = 1,
	    .head_dim = 8, .window = 30, .flags = SINKS | DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 70, .inner = 80, .batch = 2, .heads = 3, .groups = 3,
	    .head_dim = 6, .cap = 1, .flags = SINKS },
	{ &attention_test, CASE_BOTH, .rows = 67, .inner = 35, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 8, .window = 30, .drop = 0.2, .flags = SINKS },
	{ &attention_test, CASE_BOTH, .rows = 70, .batch = 2, .heads = 4, .groups = 4,
	    .head_dim = 6, .columns = 3, .flags = DOCUMENTS },
	{ &attention_test, CASE_BOTH, .rows = 67, .inner = 35, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 8, .columns = 16, .window = 30, .drop = 0.2 },
	{ &attention_test, CASE_BOTH, .rows = 80, .batch = 1, .heads = 2, .groups = 2,
	    .head_dim = 24, .columns = 16, .cap = 2 },
	{ &attention_test, CASE_LARGE, .rows = 150, .batch = 2, .heads = 2, .groups = 2,
	    .head_dim = 192, .columns = 128 },
	{ &attention_test, CASE_BOTH, .rows = 70, .batch = 2, .heads = 4, .groups = 2,
	    .head_dim = 6, .columns = 4, .flags = SINKS },
	{ &attention_test, CASE_LARGE, .rows = 200, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 64 },
	{ &attention_test, CASE_LARGE, .rows = 129, .batch = 2, .heads = 4, .groups = 2,
	    .head_dim = 128, .drop = 0.2 },
	{ &attention_test, CASE_LARGE, .rows = 300, .batch = 1, .heads = 2, .groups = 1,
	    .head_dim = 80, .window = 100 },
	{ &attention_test, CASE_LARGE, .rows = 65, .batch = 1, .heads = 1, .groups = 1,
	    .head_dim = 256 },
	{ &attention_test, CASE_LARGE, .rows = 1, .inner = 300, .batch = 3, .heads = 4, .groups = 2,
	    .head_dim = 64, .flags = DOCUMENTS },
	{ &attention_test, CASE_LARGE, .rows = 1, .inner = 200, .batch = 2, .heads = 4, .groups = 4,
	    .head_dim = 128, .window = 70, .flags = DOCUMENTS },
	{ &attention_test, CASE_LARGE, .rows = 70, .batch = 1, .heads = 3, .groups = 3,
	    .head_dim = 33, .window = 1 },
	CHECKED(CASE_BOTH, test_steps),
	CHECKED(CASE_BOTH, test_largest_scores),
	CHECKED(CASE_CPU, test_scores),
	{ &attention_test, CASE_TIME, .rows = 4096, .batch = 2, .heads = 32, .groups = 8,
	    .head_dim = 128 },
	{ &attention_test, CASE_LARGE, .rows = 333, .batch = 2, .heads = 8, .groups = 1,
	    .head_dim = 64, .window = 128, .flags = SINKS },
	{ &attention_test, CASE_TIME, .rows = 4096, .batch = 1, .heads = 32, .groups = 32,
	    .head_dim = 192, .columns = 128 },
	{ &attention_test, CASE_TIME, .rows = 1024, .batch = 8, .heads = 12, .groups = 12,
	    .head_dim = 64 },
	{ 0 },
};
