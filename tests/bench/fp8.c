/*
 * fp8.c - the gain of 8-bit operands on a GPU: the GEMMs of a layer of Llama-8B in bf16 and in 8
 * bits, with and without the copies that feed them, and the rates of the copies
 *
 * First the copies: rows, columns, what is made, ms, GB/s of the bytes that it must move, share of
 * a plain copy's rate. Then SwiGLU and its gradient, with the copies that are read: bytes that each
 * way must move, and the gain of making copies as results are made. Then the GEMMs: tokens,
 * linear, GEMM, form, ms, TFLOP/s, times the rate of bf16; "+ copies" has the copies that a
 * micro batch makes before it. A layer's sums at the end. Weights are copied once a step, so they
 * are among the copies alone. Without a GPU it prints a note and succeeds.
 */
#include "tests/bench/rig.h"

enum { POOL_GIB = 16 };
enum form { BF16, TENSOR, TENSOR_COPIES, BLOCKS, BLOCKS_COPIES, FORMS };
static const char *const forms[] = { "bf16", "fp8", "fp8 + copies", "blocks", "blocks + copies" };

/* Copies for a GEMM and the GEMM. */
struct job {
	struct gemm gemm;
	struct quantise quantise;
};

static void
run_gemm(struct stream *st, const void *args)
{
	const struct job *j = args;

	st->ops->gemm(st, &j->gemm);
}

static void
run_quantise(struct stream *st, const void *args)
{
	const struct job *j = args;

	st->ops->quantise(st, &j->quantise);
}

static void
run_both(struct stream *st, const void *args)
{
	run_quantise(st, args);
	run_gemm(st, args);
}

static void
run_copy(struct stream *st, const void *args)
{
	const struct job *j = args;

	st->ops->cast(st, &(struct pair){ j->quantise.q, j->quantise.x });
}

/* --- operands --------------------------------------------------------------------------------- */

/* A matrix and the arguments of its copies, by one factor and by blocks. */
struct operand {
	struct tensor x;
	struct quantise tensor, block;
};

static struct quantise
copies_of(struct rig *r, struct tensor x, enum dtype type, enum quantise_kind kind)
{
	return (struct quantise){ .x = x,
		.q = rig_matrix(r, type, x.shape[0], x.shape[1]),
		.qt = rig_matrix(r, type, x.shape[1], x.shape[0]),
		.kind = kind };
}

static struct tensor
blocks_of(struct rig *r, int64_t rows, int64_t k, bool squares)
{
	int64_t lines = (k + SCALE_BLOCK - 1) / SCALE_BLOCK;

	return squares
	    ? rig_matrix(r, DTYPE_F32, (rows + SCALE_BLOCK - 1) / SCALE_BLOCK, (lines + 3) / 4 * 4)
	    : rig_matrix(r, DTYPE_F32, lines, rows);
}

/* With copies made; those by one factor are delayed from then on. */
static struct operand
operand_new(struct rig *r, const int64_t shape[2], enum dtype type, bool squares)
{
	int64_t rows = shape[0], columns = shape[1];
	struct operand o = { .x = rig_matrix(r, DTYPE_BF16, rows, columns) };

	o.tensor = copies_of(r, o.x, type, QUANTISE_CURRENT);
	o.tensor.scale = rig_vector(r, DTYPE_F32, SCALE_ROW);
	o.tensor.amax = rig_vector(r, DTYPE_F32, 1);
	r->st->ops->quantise(r->st, &o.tensor);
	o.tensor.kind = QUANTISE_DELAYED;
	o.block = copies_of(r, o.x, DTYPE_F8_E4M3, QUANTISE_BLOCK);
	o.block.scale = blocks_of(r, rows, columns, squares);
	o.block.scale_t = blocks_of(r, columns, rows, squares);
	r->st->ops->quantise(r->st, &o.block);
	return o;
}

/* The copy, or its transpose, as an operand of a GEMM. */
static void
put_operand(struct tensor *to, struct tensor *scale, const struct quantise *q, bool transposed)
{
	*to = transposed ? q->qt : q->q;
	if (q->kind == QUANTISE_BLOCK)
		*scale = transposed ? q->scale_t : q->scale;
	else
		*scale = tensor_1d((float *)q->scale.data + SCALE_INVERSE, DTYPE_F32, 1);
}

/* --- GEMMs ------------------------------------------------------------------------------------ */
enum pass { FORWARD, INPUT, WEIGHT, PASSES };
static const char *const passes[] = { "forward", "input gradient", "weight gradient, added" };

/* A linear layer: what its GEMMs read and write. */
struct linear {
	const char *name;
	struct operand x, w, dy;
	struct tensor y, dx, dw;
};

/* The GEMM in 16 bits. */
static struct gemm
plain_gemm(const struct linear *l, enum pass p)
{
	const struct gemm all[] = {
		[FORWARD] = { .c = l->y, .a = l->x.x, .b = l->w.x, .trans_b = true, .alpha = 1 },
		[INPUT] = { .c = l->dx, .a = l->dy.x, .b = l->w.x, .alpha = 1 },
		[WEIGHT] = { .c = l->dw,
		    .a = l->dy.x,
		    .b = l->x.x,
		    .trans_a = true,
		    .alpha = 1,
		    .beta = 1 },
	};

	return all[p];
}

/* The GEMM in 8 bits, and the copies of its micro batch: forward that of x, then both of dy for
 * the two gradients, and the transpose of x. */
static struct job
narrow_job(const struct linear *l, enum pass p, bool blocks)
{
	struct job j = { .gemm = plain_gemm(l, p) };
	const struct operand *a = p == FORWARD ? &l->x : &l->dy, *b = p == WEIGHT ? &l->x : &l->w,
			     *made = p == INPUT ? &l->dy : &l->x;

	j.gemm.trans_a = false;
	j.gemm.trans_b = true;
	j.gemm.exact = p != FORWARD;
	put_operand(&j.gemm.a, &j.gemm.scale_a, blocks ? &a->block : &a->tensor, p == WEIGHT);
	put_operand(&j.gemm.b, &j.gemm.scale_b, blocks ? &b->block : &b->tensor, p != FORWARD);
	j.quantise = blocks ? made->block : made->tensor;
	if (p == FORWARD)
		j.quantise.qt.data = NULL;
	if (p == WEIGHT)
		j.quantise.q.data = j.quantise.amax.data = NULL;
	return j;
}

/* The lines of one GEMM; seconds are added to those of the layer. */
static void
bench_gemm(const struct rig *r, const struct linear *l, enum pass p, double sums[FORMS])
{
	struct tensor c = plain_gemm(l, p).c;
	int64_t k = p == FORWARD ? l->x.x.shape[1] : l->dy.x.shape[p == INPUT ? 1 : 0];
	double flops = 2.0 * (double)c.shape[0] * (double)c.shape[1] * (double)k, plain = 0;

	for (int form = 0; form < FORMS; form++) {
		struct job j = narrow_job(l, p, form >= BLOCKS);
		bool copies = form == TENSOR_COPIES || form == BLOCKS_COPIES;
		double t;

		if (form == BF16)
			j.gemm = plain_gemm(l, p);
		t = rig_seconds(r, copies ? run_both : run_gemm, &j);
		plain = form == BF16 ? t : plain;
		sums[form] += t;
		printf("%lld\t%s\t%s\t%s\t%.4f\t%.1f\t%.2f\n", (long long)l->x.x.shape[0], l->name,
		    passes[p], forms[form], t * 1e3, flops / t / 1e12, plain / t);
		fflush(stdout);
	}
}

/* A linear layer of n outputs of k inputs. */
static void
bench_linear(struct rig *r, const char *name, const int64_t size[3], double sums[FORMS])
{
	int64_t rows = size[0], n = size[1], k = size[2];
	struct linear l = { .name = name };

	r->used = 0;
	l.x = operand_new(r, (const int64_t[]){ rows, k }, DTYPE_F8_E4M3, false);
	l.w = operand_new(r, (const int64_t[]){ n, k }, DTYPE_F8_E4M3, true);
	l.dy = operand_new(r, (const int64_t[]){ rows, n }, DTYPE_F8_E5M2, false);
	l.y = rig_matrix(r, DTYPE_BF16, rows, n);
	l.dx = rig_matrix(r, DTYPE_BF16, rows, k);
	l.dw = rig_matrix(r, DTYPE_F32, n, k);
	for (int p = 0; p < PASSES; p++)
		bench_gemm(r, &l, (enum pass)p, sums);
}

/* A layer at so many tokens. */
static void
bench_layer(struct rig *r, const struct bench_model *m, int64_t tokens)
{
	int64_t q = (int64_t)m->n * m->d, qkv = q + 2 * (int64_t)m->g * m->d;
	double sums[FORMS] = { 0 };

	bench_linear(r, "qkv", (const int64_t[]){ tokens, qkv, m->h }, sums);
	bench_linear(r, "attention out", (const int64_t[]){ tokens, m->h, q }, sums);
	bench_linear(r, "fc1", (const int64_t[]){ tokens, 2 * m->f, m->h }, sums);
	bench_linear(r, "fc2", (const int64_t[]){ tokens, m->h, m->f }, sums);
	for (int form = 0; form < FORMS; form++)
		printf("%lld\tlayer\tall\t%s\t%.4f\t-\t%.2f\n", (long long)tokens, forms[form],
		    sums[form] * 1e3, sums[BF16] / sums[form]);
}

/* --- copies ----------------------------------------------------------------------------------- */

/* One line: bytes of an element that are moved. */
static void
report(const struct rig *r, const char *what, void (*run)(struct stream *, const void *),
    const struct job *j, double bytes[2])
{
	const struct tensor *x = &j->quantise.x;
	double t = rig_seconds(r, run, j), rate = bytes[0] * (double)tensor_elements(x) / t;

	if (bytes[1] == 0)
		bytes[1] = rate;
	printf("%lld\t%lld\t%s\t%.4f\t%.0f\t%.3f\n", (long long)x->shape[0], (long long)x->shape[1],
	    what, t * 1e3, rate / 1e9, rate / bytes[1]);
	fflush(stdout);
}

/* Copies of a matrix, beside a plain copy of it. */
static void
bench_copies(struct rig *r, int64_t rows, int64_t columns)
{
	double bytes[2] = { 4, 0 };
	struct operand o, squares;
	struct job j;

	r->used = 0;
	o = operand_new(r, (const int64_t[]){ rows, columns }, DTYPE_F8_E4M3, false);
	squares = operand_new(r, (const int64_t[]){ rows, columns }, DTYPE_F8_E4M3, true);
	j.quantise = o.tensor;
	j.quantise.q = rig_matrix(r, DTYPE_BF16, rows, columns);
	report(r, "plain copy", run_copy, &j, bytes);
	j.quantise = o.tensor;
	report(r, "both", run_quantise, &j, bytes);
	j.quantise.kind = QUANTISE_CURRENT;
	bytes[0] = 6;
	report(r, "both, current", run_quantise, &j, bytes);
	bytes[0] = 4;
	j.quantise = o.block;
	report(r, "both, lines", run_quantise, &j, bytes);
	j.quantise = squares.block;
	report(r, "both, squares", run_quantise, &j, bytes);
	bytes[0] = 3;
	j.quantise = o.tensor;
	j.quantise.qt.data = NULL;
	report(r, "copy alone", run_quantise, &j, bytes);
	j.quantise = o.tensor;
	j.quantise.q.data = NULL;
	report(r, "transpose alone", run_quantise, &j, bytes);
	bytes[0] = 2;
	j.quantise.qt.data = NULL;
	report(r, "largest alone", run_quantise, &j, bytes);
}

/* --- activations ------------------------------------------------------------------------------ */

/* SwiGLU, or its gradient with y rebuilt, with the copies of what it makes: by several operations,
 * or by one that keeps nothing in 16 bits. */
struct act_job {
	struct tensor x, dy;
	struct quantise y, dx;
	bool backward;
};

static void
run_apart(struct stream *st, const void *args)
{
	const struct act_job *j = args;

	if (j->backward) {
		st->ops->act_bwd(st,
		    &(struct act_grad){
			.kind = ACT_SWIGLU, .dx = j->dx.x, .dy = j->dy, .x = j->x, .y = j->y.x });
		st->ops->quantise(st, &j->dx);
	} else
		st->ops->act_fwd(st, &(struct act){ .kind = ACT_SWIGLU, .y = j->y.x, .x = j->x });
	st->ops->quantise(st, &j->y);
}

static void
run_joined(struct stream *st, const void *args)
{
	const struct act_job *j = args;

	if (j->backward)
		st->ops->act_bwd(st,
		    &(struct act_grad){ .kind = ACT_SWIGLU,
			.dy = j->dy,
			.x = j->x,
			.dx_copies = j->dx,
			.y_copies = j->y });
	else
		st->ops->act_fwd(
		    st, &(struct act){ .kind = ACT_SWIGLU, .x = j->x, .copies = j->y });
}

/* A line of each way; bytes of an element of y. */
static void
report_act(const struct rig *r, const char *what, const struct act_job *j, const int bytes[2])
{
	double count = (double)tensor_elements(&j->y.x), first = 0;

	for (int i = 0; i < 2; i++) {
		double t = rig_seconds(r, i ? run_joined : run_apart, j);

		first = i ? first : t;
		printf("%lld\t%lld\t%s%s\t%.4f\t%.0f\t%.2f\n", (long long)j->y.x.shape[0],
		    (long long)j->y.x.shape[1], what, i ? ", as it is made" : "", t * 1e3,
		    bytes[i] * count / t / 1e9, first / t);
		fflush(stdout);
	}
}

/* Forward the copy that the next GEMM reads, backward both of the gradient and the transpose of
 * y; by one factor, and by lines. */
static void
bench_acts(struct rig *r, int64_t rows, int64_t columns)
{
	struct operand y, dx;
	struct act_job j = { .backward = false };

	r->used = 0;
	y = operand_new(r, (const int64_t[]){ rows, columns }, DTYPE_F8_E4M3, false);
	dx = operand_new(r, (const int64_t[]){ rows, 2 * columns }, DTYPE_F8_E5M2, false);
	j.x = rig_matrix(r, DTYPE_BF16, rows, 2 * columns);
	j.dy = rig_matrix(r, DTYPE_BF16, rows, columns);
	for (int lines = 0; lines < 2; lines++) {
		j.y = lines ? y.block : y.tensor;
		j.dx = lines ? dx.block : dx.tensor;
		j.y.qt.data = NULL;
		j.backward = false;
		report_act(
		    r, lines ? "swiglu, line copy" : "swiglu, copy", &j, (const int[]){ 9, 5 });
		j.y.qt = lines ? y.block.qt : y.tensor.qt;
		j.y.q.data = j.y.amax.data = NULL;
		j.backward = true;
		report_act(r, lines ? "gradient, line copies" : "gradient, copies", &j,
		    (const int[]){ 23, 11 });
	}
}

int
main(void)
{
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	const struct backend *backend = gpu_backend();
	const struct bench_model *m = bench_models;
	struct rig r;

	if (!backend)
		return 0;
	while (strcmp(m->name, "llama-8b-8L") != 0)
		m++;
	r = rig_open(backend, &config, (size_t)POOL_GIB << 30);
	printf("rows\tcolumns\tcopy\tms\tGB/s\tshare\n");
	bench_copies(&r, 8192, m->h);
	bench_copies(&r, 8192, 2 * m->f);
	bench_copies(&r, 16384, m->f);
	printf("rows\tcolumns\tcopies of\tms\tGB/s\tgain\n");
	bench_acts(&r, 8192, m->f);
	printf("tokens\tlinear\tGEMM\tform\tms\tTFLOP/s\tgain\n");
	bench_layer(&r, m, 8192);
	bench_layer(&r, m, 16384);
	rig_close(&r);
	return 0;
}
