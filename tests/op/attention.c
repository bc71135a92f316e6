/* attention.c - attention */
#include "tests/gpu/rig.h"
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

static void
attention_declare(struct problem *p)
{
	const struct op_case *c = p->c;
	int64_t rows = c->rows * c->batch, q = (int64_t)c->heads * c->head_dim,
		kv = (int64_t)c->groups * c->head_dim;

	slot_add(p, 0, SLOT_INPUT, 0, SHAPE(rows, q));
	slot_add(p, 1, SLOT_INPUT, 0, SHAPE(rows + c->inner * c->batch, kv));
	slot_add(p, 2, SLOT_INPUT, 0, SHAPE(rows + c->inner * c->batch, kv));
	slot_add(p, 3, SLOT_OUTPUT, 0, SHAPE(rows, q));
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
	int64_t head = column / c->head_dim;
	int64_t v = head * c->groups / c->heads * c->head_dim + column % c->head_dim;
	double total = c->flags & SINKS ? exp(value_at(p, 7, head, 0)) : 0, sum = 0;

	for (int64_t key = 0; key <= query; key++) {
		int64_t index =
		    (((drop.first_sample + sample) * drop.width + drop.first_column + head) *
			    drop.seq_length +
			query) *
			drop.seq_length +
		    key;
		double e = exp(score(p, row, key * c->batch + sample, head));

		if ((c->window > 0 && key <= query - c->window) ||
		    (c->flags & DOCUMENTS && key < document_start(sample, query)))
			continue;
		total += e;
		sum += e * value_at(p, 2, key * c->batch + sample, v) *
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
	CHECKED(CASE_BOTH, test_largest_scores),
	CHECKED(CASE_CPU, test_scores),
	{ &attention_test, CASE_TIME, .rows = 4096, .batch = 2, .heads = 32, .groups = 8,
	    .head_dim = 128 },
	{ &attention_test, CASE_LARGE, .rows = 333, .batch = 2, .heads = 8, .groups = 1,
	    .head_dim = 64, .window = 128, .flags = SINKS },
	{ &attention_test, CASE_TIME, .rows = 1024, .batch = 8, .heads = 12, .groups = 12,
	    .head_dim = 64 },
	{ 0 },
};
