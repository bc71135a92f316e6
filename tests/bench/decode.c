/*
 * decode.c [PROMPTS...] - what the parts of a token take where text is generated on a GPU
 *
 * A Llama of 1 B in bf16 with 270 kept positions: its operations of a pass over one token of each
 * prompt, by default of 1 and of 32. Those of a kind, of all layers, are recorded and launched one
 * after another, so that no memory is in a cache; then all of them; and then all with what the host
 * does for a token: its copies, the launch, and the wait. A row for each: microseconds of all
 * layers, of one call, and the GB/s of weights, if it has any. Before them the rate at which memory
 * is read, and first what the host takes to keep and to choose from the logits of one prompt, with
 * the GB/s of logits. Without a GPU it prints a note after those and succeeds.
 */
#include "lib/base/int64.h"
#include "lib/base/rng.h"
#include "tests/bench/rig.h"
#include "train/run/choose.h"

enum {
	POOL_GIB = 8,
	LAYERS = 16,
	HIDDEN = 2048,
	FFN = 8192,
	HEADS = 32,
	GROUPS = 8,
	WIDTH = 64,
	QKV = (HEADS + 2 * GROUPS) * WIDTH,
	VOCABULARY = 32000,
	KEPT = 271,
	ROWS_MAX = 64,
	ROUNDS = 20
};

/* In the order of a layer; the head is the last. */
enum part { PART_QKV, ROTATION, ATTENTION, PROJECTION, NORM, UP, ACTIVATION, DOWN, HEAD, PARTS };

static const struct {
	const char *name;
	int64_t weights; /* of a layer */
	int calls;
} parts[PARTS] = {
	[PART_QKV] = { "q, k, v", (int64_t)QKV *HIDDEN, LAYERS },
	[ROTATION] = { "rotation", 0, LAYERS },
	[ATTENTION] = { "attention", 0, LAYERS },
	[PROJECTION] = { "projection", (int64_t)HIDDEN *HIDDEN, LAYERS },
	[NORM] = { "residual and norm", 0, 2 * LAYERS },
	[UP] = { "gate and up", 2LL * FFN *HIDDEN, LAYERS },
	[ACTIVATION] = { "activation", 0, LAYERS },
	[DOWN] = { "down", (int64_t)FFN *HIDDEN, LAYERS },
	[HEAD] = { "head", (int64_t)VOCABULARY *HIDDEN, 1 },
};

struct weights {
	struct tensor qkv, projection, up, down, norm, keys, values;
};

struct token {
	struct rig *r;
	int rows;
	struct weights layer[LAYERS];
	struct tensor x, y, branch, normed, rstd, qkv, out, lse, up, act, head, logits, table,
	    positions, at;
};

static struct token
token_of(struct rig *r, int rows)
{
	struct token t = { .r = r, .rows = rows };
	enum dtype a = DTYPE_BF16;

	for (struct weights *w = t.layer; w < t.layer + LAYERS; w++)
		*w = (struct weights){ rig_matrix(r, a, QKV, HIDDEN),
			rig_matrix(r, a, HIDDEN, HIDDEN), rig_matrix(r, a, 2LL * FFN, HIDDEN),
			rig_matrix(r, a, HIDDEN, FFN), rig_vector(r, a, HIDDEN),
			rig_matrix(r, a, (int64_t)KEPT * rows, GROUPS * WIDTH),
			rig_matrix(r, a, (int64_t)KEPT * rows, GROUPS * WIDTH) };
	t.x = rig_matrix(r, a, rows, HIDDEN);
	t.y = rig_matrix(r, a, rows, HIDDEN);
	t.branch = rig_matrix(r, a, rows, HIDDEN);
	t.normed = rig_matrix(r, a, rows, HIDDEN);
	t.rstd = rig_vector(r, DTYPE_F32, rows);
	t.qkv = rig_matrix(r, a, rows, QKV);
	t.out = rig_matrix(r, a, rows, HEADS * WIDTH);
	t.lse = rig_matrix(r, DTYPE_F32, (int64_t)rows * HEADS, 1);
	t.up = rig_matrix(r, a, rows, 2LL * FFN);
	t.act = rig_matrix(r, a, rows, FFN);
	t.head = rig_matrix(r, a, VOCABULARY, HIDDEN);
	t.logits = rig_matrix(r, a, rows, VOCABULARY);
	t.table = rig_matrix(r, DTYPE_F32, KEPT, WIDTH);
	t.positions = rig_vector(r, DTYPE_I32, rows);
	t.at = rig_vector(r, DTYPE_I32, 1);
	return t;
}

static void
multiply(const struct token *t, struct tensor to, struct tensor x, struct tensor weight)
{
	struct gemm g = { .c = to, .a = x, .b = weight, .trans_b = true, .alpha = 1 };

	t->r->st->ops->gemm(t->r->st, &g);
}

/* As layers do with few rows: a linear of what is normed, with its activation, or one on top of the
 * residual. */
static void
step_normed(const struct token *t, struct tensor to, struct tensor weight, const struct weights *w)
{
	struct linear_step l = { .y = to,
		.x = t->x,
		.weight = weight,
		.norm = {
		    .y = t->normed, .x = t->x, .weight = w->norm, .rstd = t->rstd, .eps = 1e-5 } };

	if (to.shape[1] != weight.shape[0]) {
		l.product = t->up;
		l.act = (struct act){ .kind = ACT_SWIGLU, .y = to, .x = t->up };
	}
	t->r->st->ops->linear_step(t->r->st, &l);
}

static void
step_residual(const struct token *t, struct tensor x, struct tensor weight)
{
	t->r->st->ops->linear_step(t->r->st,
	    &(struct linear_step){
		.y = t->y, .x = x, .weight = weight, .residual = t->x, .product = t->branch });
}

static void
attend(const struct token *t, const struct weights *w)
{
	int64_t q = HEADS * WIDTH, k = GROUPS * WIDTH;
	struct attention_step s = { .fwd = { .out = t->out,
					.lse = t->lse,
					.q = tensor_columns(&t->qkv, 0, q),
					.k = tensor_columns(&t->qkv, q, k),
					.v = tensor_columns(&t->qkv, q + k, k),
					.micro_batch = t->rows,
					.num_heads = HEADS,
					.num_groups = GROUPS,
					.head_dim = WIDTH,
					.scale = 0.125 },
		.keys = w->keys,
		.values = w->values,
		.position = t->at };

	t->r->st->ops->attention_step(t->r->st, &s);
}

static void
rotate(const struct token *t)
{
	struct rope p = { .x = tensor_columns(&t->qkv, 0, (HEADS + GROUPS) * WIDTH),
		.table = t->table,
		.positions = t->positions,
		.num_heads = HEADS + GROUPS,
		.head_dim = WIDTH,
		.rotary_dim = WIDTH };

	t->r->st->ops->rope(t->r->st, &p);
}

static void
add_and_norm(const struct token *t, const struct weights *w)
{
	struct residual s = { .y = t->y,
		.x = t->branch,
		.residual = t->x,
		.norm = {
		    .y = t->normed, .x = t->y, .weight = w->norm, .rstd = t->rstd, .eps = 1e-5 } };

	t->r->st->ops->residual_fwd(t->r->st, &s);
}

/* As run_layer, of few rows: norms and the activation are within the linears. */
static void
run_layer_joined(const struct token *t, const struct weights *w, unsigned bits)
{
	if (bits & 1U << PART_QKV)
		step_normed(t, t->qkv, w->qkv, w);
	if (bits & 1U << ROTATION)
		rotate(t);
	if (bits & 1U << ATTENTION)
		attend(t, w);
	if (bits & 1U << PROJECTION)
		step_residual(t, t->out, w->projection);
	if (bits & 1U << UP)
		step_normed(t, t->act, w->up, w);
	if (bits & 1U << DOWN)
		step_residual(t, t->act, w->down);
}

/* Parts of a layer, by their bits. */
static void
run_layer(const struct token *t, const struct weights *w, unsigned bits)
{
	if (bits & 1U << PART_QKV)
		multiply(t, t->qkv, t->normed, w->qkv);
	if (bits & 1U << ROTATION)
		rotate(t);
	if (bits & 1U << ATTENTION)
		attend(t, w);
	if (bits & 1U << PROJECTION)
		multiply(t, t->branch, t->out, w->projection);
	if (bits & 1U << NORM)
		add_and_norm(t, w);
	if (bits & 1U << UP)
		multiply(t, t->up, t->normed, w->up);
	if (bits & 1U << ACTIVATION)
		t->r->st->ops->act_fwd(
		    t->r->st, &(struct act){ .kind = ACT_SWIGLU, .y = t->act, .x = t->up });
	if (bits & 1U << DOWN)
		multiply(t, t->branch, t->act, w->down);
	if (bits & 1U << NORM)
		add_and_norm(t, w);
}

static void
run_parts(const struct token *t, unsigned bits)
{
	bool joined = t->rows <= t->r->b->step_rows;

	for (int i = 0; i < LAYERS; i++)
		(joined ? run_layer_joined : run_layer)(t, &t->layer[i], bits);
	if (!(bits & 1U << HEAD))
		return;
	if (!joined) {
		multiply(t, t->logits, t->normed, t->head);
		return;
	}
	add_and_norm(t, &t->layer[0]);
	t->r->st->ops->linear_step(
	    t->r->st, &(struct linear_step){ .y = t->logits, .x = t->normed, .weight = t->head });
}

/* Run once before, when GEMMs are planned. */
static struct recorded *
record(const struct token *t, unsigned bits)
{
	struct recorded *graph = NULL;
	struct err e;

	run_parts(t, bits);
	rig_finish(t->r);
	if (t->r->b->record_begin(t->r->st, &e)) {
		run_parts(t, bits);
		graph = t->r->b->record_end(t->r->st, &e);
	}
	if (!graph)
		rig_fail(e.msg);
	return graph;
}

/* The copies of a token to the device and from it, and the wait: the places are written for their
 * time alone, with zeros, which are positions too. */
static void
copies(const struct token *t, void *host, bool before)
{
	static const int32_t zeros[ROWS_MAX];
	const struct backend *b = t->r->b;
	struct tensor to[] = { t->positions, t->positions, t->rstd, t->lse };

	for (int i = 0; before && i < 4; i++)
		b->copy_in(t->r->st, to[i].data, zeros, (size_t)t->rows * sizeof *zeros);
	if (!before) {
		b->copy_out(t->r->st, host, t->logits.data, tensor_bytes(&t->logits));
		rig_finish(t->r);
	}
}

/* Seconds of a launch: the best of three rounds. host: with what the host does for a token. */
static double
seconds(const struct token *t, struct recorded *graph, void *host)
{
	double best = 1;

	for (int k = 0; k < 3; k++) {
		double since = clock_seconds();

		for (int i = 0; i < ROUNDS; i++) {
			if (host)
				copies(t, host, true);
			t->r->b->launch(t->r->st, graph);
			if (host)
				copies(t, host, false);
		}
		rig_finish(t->r);
		best = fmin(best, (clock_seconds() - since) / ROUNDS);
	}
	return best;
}

static void
print_parts(const struct token *t, const char *name, unsigned bits, void *host)
{
	struct recorded *graph = record(t, bits);
	double s = seconds(t, graph, host), bytes = 0;
	int calls = 0;

	for (int i = 0; i < PARTS; i++) {
		calls += bits >> i & 1 ? parts[i].calls : 0;
		bytes +=
		    bits >> i & 1 ? 2.0 * (double)parts[i].weights * (i == HEAD ? 1 : LAYERS) : 0;
	}
	printf(
	    "%d\t%s\t%.0f\t%.1f\t%.0f\n", t->rows, name, s * 1e6, s * 1e6 / calls, bytes / s / 1e9);
	fflush(stdout);
	t->r->b->drop(graph);
}

static void
read_memory(struct stream *st, const void *args)
{
	st->ops->dot(st, args);
}

/* One prompt at a time, in memory of its own. */
static void
measure(const struct backend *b, int rows)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct rig r = rig_open(b, &config, (size_t)POOL_GIB << 30);
	struct token t = token_of(&r, rows);
	size_t bytes = tensor_bytes(&t.logits);
	void *host = calloc(1, bytes);
	int32_t last = KEPT - 1;

	b->copy_in(r.st, t.at.data, &last, sizeof last);
	for (int i = 0; i < rows; i++)
		b->copy_in(r.st, (int32_t *)t.positions.data + i, &last, sizeof last);
	if (!host)
		rig_fail("no memory");
	b->pin(r.d, host, bytes);
	for (int i = 0; i < PARTS; i++)
		if (rows > b->step_rows || (i != NORM && i != ACTIVATION))
			print_parts(&t, parts[i].name, 1U << i, NULL);
	print_parts(&t, "all but GEMMs",
	    1U << ROTATION | 1U << ATTENTION | 1U << NORM | 1U << ACTIVATION, NULL);
	print_parts(&t, "all", (1U << PARTS) - 1, NULL);
	print_parts(&t, "all with the host", (1U << PARTS) - 1, host);
	b->unpin(r.d, host);
	free(host);
	rig_close(&r);
}

static void
measure_memory(const struct backend *b)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	struct rig r = rig_open(b, &config, (size_t)POOL_GIB << 30);
	struct dot d = { .out = rig_vector(&r, DTYPE_F64, 1),
		.x = rig_vector(&r, DTYPE_F32, 1 << 29),
		.y = rig_vector(&r, DTYPE_F32, 1 << 29) };
	double s = rig_seconds(&r, read_memory, &d);

	printf("0\tmemory is read\t%.0f\t%.1f\t%.0f\n", s * 1e6, s * 1e6,
	    2.0 * (double)tensor_bytes(&d.x) / s / 1e9);
	rig_close(&r);
}

/* Seconds of a copy of the logits to `kept`, or of a choice from them: the best of many, since
 * others may want the processor. */
static double
host_seconds(const struct logits *l, void *kept)
{
	const struct sampling s = { .top_p = 1 };
	double best = 1;

	for (int i = 0; i < 100 * ROUNDS; i++) {
		double since = clock_seconds();

		if (kept)
			memcpy(kept, l->data, (size_t)l->count * dtype_size(l->type));
		else if (choose(&s, l, l->count, 0) < 0)
			rig_fail("no token was chosen");
		best = fmin(best, clock_seconds() - since);
	}
	return best;
}

/* Logits of BF16 without an order. */
static void
measure_host(int64_t vocabulary)
{
	static const char *const name[] = { "kept on the host", "chosen from" };
	uint16_t *data = calloc((size_t)vocabulary, 2 * sizeof *data);
	struct logits l = { data, DTYPE_BF16, vocabulary, 0 };

	if (!data)
		rig_fail("no memory");
	for (int64_t i = 0; i < vocabulary; i++)
		data[i] = dtype_bf16_from_f32(20 * rng_uniform(5, (uint64_t)i, 1, 0) - 10);
	for (int i = 0; i < 2; i++) {
		double s = host_seconds(&l, i ? NULL : data + vocabulary);

		printf("1\t%lld logits %s\t%.1f\t%.1f\t%.0f\n", (long long)vocabulary, name[i],
		    s * 1e6, s * 1e6, 2 * (double)vocabulary / s / 1e9);
	}
	free(data);
}

int
main(int argc, char **argv)
{
	const struct backend *b;

	printf("prompts\tpart\tmicroseconds\tof_a_call\tGB_per_second\n");
	measure_host(VOCABULARY);
	measure_host(128256);
	b = gpu_backend();
	if (!b)
		return 0;
	measure_memory(b);
	for (int i = 1; i < argc; i++)
		measure(b, (int)int64_max(1, int64_min(atoi(argv[i]), ROWS_MAX)));
	for (int i = 0; argc == 1 && i < 2; i++)
		measure(b, i ? 32 : 1);
	return 0;
}
