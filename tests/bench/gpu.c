/*
 * gpu.c [GROUP...] - rates of the GPU's operations on the shapes of models (rig.h), as shares
 * of the copy and GEMM rates that the same GPU reached within the same minute
 *
 * Columns: model, operation, milliseconds, rate, unit, share. Bytes are those that the operation
 * must move (docs/gpu.md 3); the ceilings are a copy of device memory, read and write counted,
 * and a GEMM of 8192 x 8192 x 8192. Without a GPU it prints a note and succeeds.
 */
#include "lib/base/mem.h"
#include "tests/bench/rig.h"

enum { LOGIT_ROWS = 4096, POOL_GIB = 24, CEILING_SIDE = 8192 };

/* The current model and the ceilings. */
struct bench {
	struct rig r;
	const struct bench_model *m;
	int64_t T;
	double copy, gemm; /* bytes and operations a second */
};

/* An operation with its arguments. */
struct work {
	struct gemm gemm;
	struct norm norm;
	struct norm_grad norm_grad;
	struct residual residual;
	struct rope rope;
	struct act_grad act;
	struct xent xent;
	struct embedding embedding;
	struct embedding_grad embedding_grad;
	struct adamw adamw;
	struct normal normal;
	struct route route;
	struct route_grad route_grad;
	struct permute rows;
	struct expert_act expert_act;
	struct expert_act_grad expert_act_grad;
	enum act_kind kind;
	struct tensor x, y, out;
};

typedef void operation(struct stream *st, const struct work *w);

/* An operation as rig_seconds calls it. */
struct call {
	operation *op;
	const struct work *w;
};

static void
call(struct stream *st, const void *args)
{
	const struct call *c = args;

	c->op(st, c->w);
}

static double
seconds(const struct bench *b, operation *op, const struct work *w)
{
	return rig_seconds(&b->r, call, &(struct call){ op, w });
}

/* One line: amount is bytes, or the operations of a GEMM. */
static void
report(const struct bench *b, const char *name, operation *op, const struct work *w, double bytes)
{
	double t = seconds(b, op, w);

	printf("%s\t%s\t%.4f\t%.0f\tGB/s\t%.3f\n", b->m->name, name, t * 1e3, bytes / t / 1e9,
	    bytes / t / b->copy);
}

/* As report, for a GEMM. */
static void
report_gemm(const struct bench *b, const char *name, operation *op, const struct work *w)
{
	const struct gemm *g = &w->gemm;
	double flops = 2.0 * (double)g->c.shape[0] * (double)g->c.shape[1] *
	    (double)g->a.shape[g->trans_a ? 0 : 1];
	double t = seconds(b, op, w);

	printf("%s\t%s\t%.4f\t%.1f\tTFLOP/s\t%.3f\n", b->m->name, name, t * 1e3, flops / t / 1e12,
	    flops / t / b->gemm);
}

/* Memory from the pool, filled with normals of deviation 1. */
static struct tensor
take(struct bench *b, enum dtype dtype, int64_t rows, int64_t columns)
{
	return rig_matrix(&b->r, dtype, rows, columns);
}

static struct tensor
vector(struct bench *b, enum dtype dtype, int64_t n)
{
	return rig_vector(&b->r, dtype, n);
}

/* Numbers i % period when period > 0, else numbers less than `below`, distributed like words: the
 * logarithm of the rank is about uniform. */
static struct tensor
ids(struct bench *b, int64_t n, int64_t period, int64_t below, int64_t *distinct)
{
	struct tensor t = vector(b, DTYPE_I32, n);
	int32_t *host = mem_alloc((size_t)n, sizeof *host);
	char *seen = mem_zalloc((size_t)below, 1);
	uint64_t state = 1;

	*distinct = 0;
	for (int64_t i = 0; i < n; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		host[i] = (int32_t)(period > 0
			? i % period
			: (int64_t)pow((double)below, (double)(state >> 11) * 0x1p-53) - 1);
		*distinct += !seen[host[i]];
		seen[host[i]] = 1;
	}
	b->r.b->copy_in(b->r.st, t.data, host, tensor_bytes(&t));
	rig_finish(&b->r);
	free(host);
	free(seen);
	return t;
}

/* --- one call of each operation --------------------------------------------------------------- */
static void
op_gemm(struct stream *st, const struct work *w)
{
	st->ops->gemm(st, &w->gemm);
}
static void
op_norm(struct stream *st, const struct work *w)
{
	st->ops->norm_fwd(st, &w->norm);
}
static void
op_norm_bwd(struct stream *st, const struct work *w)
{
	st->ops->norm_bwd(st, &w->norm_grad);
}
static void
op_residual(struct stream *st, const struct work *w)
{
	st->ops->residual_fwd(st, &w->residual);
}
static void
op_rope(struct stream *st, const struct work *w)
{
	st->ops->rope(st, &w->rope);
}
static void
op_act(struct stream *st, const struct work *w)
{
	st->ops->act_fwd(st, &(struct act){ .kind = w->kind, .y = w->y, .x = w->x });
}
static void
op_act_bwd(struct stream *st, const struct work *w)
{
	st->ops->act_bwd(st, &w->act);
}
static void
op_xent(struct stream *st, const struct work *w)
{
	st->ops->xent_loss(st, &w->xent);
}
static void
op_gather(struct stream *st, const struct work *w)
{
	st->ops->embedding_fwd(st, &w->embedding);
}
static void
op_scatter(struct stream *st, const struct work *w)
{
	st->ops->embedding_bwd(st, &w->embedding_grad);
}
static void
op_adamw(struct stream *st, const struct work *w)
{
	st->ops->adamw(st, &w->adamw);
}
static void
op_dot(struct stream *st, const struct work *w)
{
	st->ops->dot(st, &(struct dot){ w->out, w->x, w->x });
}
static void
op_nonfinite(struct stream *st, const struct work *w)
{
	st->ops->count_nonfinite(st, &(struct pair){ w->out, w->x });
}
static void
op_cast(struct stream *st, const struct work *w)
{
	st->ops->cast(st, &(struct pair){ w->y, w->x });
}
static void
op_add(struct stream *st, const struct work *w)
{
	st->ops->add(st, &(struct pair){ w->y, w->x });
}
static void
op_fill(struct stream *st, const struct work *w)
{
	st->ops->fill(st, &(struct fill){ w->y, 0.5 });
}
static void
op_normal(struct stream *st, const struct work *w)
{
	st->ops->normal(st, &w->normal);
}
static void
op_route(struct stream *st, const struct work *w)
{
	st->ops->route(st, &w->route);
}
static void
op_route_grad(struct stream *st, const struct work *w)
{
	st->ops->route_grad(st, &w->route_grad);
}
static void
op_rows(struct stream *st, const struct work *w)
{
	st->ops->permute(st, &w->rows);
}
static void
op_expert_act(struct stream *st, const struct work *w)
{
	st->ops->expert_act(st, &w->expert_act);
}
static void
op_expert_act_grad(struct stream *st, const struct work *w)
{
	st->ops->expert_act_grad(st, &w->expert_act_grad);
}

/* --- groups of operations --------------------------------------------------------------------- */

/* The residual stream of a block. Gradients that an operation accumulates in place grow with each
 * call, which does not change its time. */
static void
bench_norm(struct bench *b)
{
	const struct bench_model *m = b->m;
	double bytes = 2.0 * (double)b->T * (double)m->h;
	struct tensor x = take(b, DTYPE_BF16, b->T, m->h), y = take(b, DTYPE_BF16, b->T, m->h),
		      z = take(b, DTYPE_BF16, b->T, m->h), r = take(b, DTYPE_BF16, b->T, m->h);
	struct tensor weight = vector(b, DTYPE_BF16, m->h), bias = vector(b, DTYPE_BF16, m->h);
	struct tensor none = { .data = NULL };
	struct work w = {
		.norm = { .y = y,
		    .x = x,
		    .weight = weight,
		    .bias = m->layer_norm ? bias : none,
		    .mean = vector(b, DTYPE_F32, b->T),
		    .rstd = vector(b, DTYPE_F32, b->T),
		    .eps = 1e-5 },
	};

	report(b, "norm_fwd", op_norm, &w, 2 * bytes);
	w.norm_grad = (struct norm_grad){ .dx = z,
		.dy = y,
		.x = x,
		.weight = weight,
		.mean = m->layer_norm ? w.norm.mean : none,
		.rstd = w.norm.rstd,
		.dweight = vector(b, DTYPE_F32, m->h),
		.dbias = m->layer_norm ? vector(b, DTYPE_F32, m->h) : none,
		.accumulate = true };
	report(b, "norm_bwd", op_norm_bwd, &w, 4 * bytes);
	if (m->layer_norm) {
		w.norm_grad.dx_sum = vector(b, DTYPE_F32, m->h);
		report(b, "norm_bwd+sums", op_norm_bwd, &w, 4 * bytes);
	}
	w.residual = (struct residual){ .y = z, .x = x, .residual = r };
	report(b, "residual_fwd", op_residual, &w, 3 * bytes);
	w.norm.x = z;
	w.residual.norm = w.norm;
	report(b, "residual_fwd+norm", op_residual, &w, 4 * bytes);
	w.residual.drop = (struct dropout){
		.p = 0.1, .seq_length = m->s, .width = m->h, .micro_batch = (int)(b->T / m->s)
	};
	report(b, "residual_fwd+norm+dropout", op_residual, &w, 4 * bytes);
}

/* Norms of the heads of q and of k, from packed rows and back. */
static void
bench_heads(struct bench *b)
{
	static const char *const names[][2] = { { "norm_fwd(q)", "norm_bwd(q)" },
		{ "norm_fwd(k)", "norm_bwd(k)" } };
	const struct bench_model *m = b->m;
	int64_t q = (int64_t)m->n * m->d, k = (int64_t)m->g * m->d;
	struct tensor x = take(b, DTYPE_BF16, b->T, q + 2 * k),
		      dx = take(b, DTYPE_BF16, b->T, q + 2 * k),
		      y = take(b, DTYPE_BF16, b->T, q + k);
	struct work w = { .norm = { .weight = vector(b, DTYPE_BF16, m->d), .eps = 1e-6 } };

	w.norm.rstd = vector(b, DTYPE_F32, b->T * m->n);
	w.norm_grad = (struct norm_grad){ .weight = w.norm.weight,
		.rstd = w.norm.rstd,
		.dweight = vector(b, DTYPE_F32, m->d),
		.writes_dx = true };
	for (int i = 0; i < 2; i++) {
		int64_t first = i == 0 ? 0 : q, width = i == 0 ? q : k;
		double bytes = 2.0 * (double)b->T * (double)width;

		w.norm.x = w.norm_grad.x = tensor_columns(&x, first, width);
		w.norm.y = w.norm_grad.dy = tensor_columns(&y, first, width);
		w.norm_grad.dx = tensor_columns(&dx, first, width);
		report(b, names[i][0], op_norm, &w, 2 * bytes);
		report(b, names[i][1], op_norm_bwd, &w, 3 * bytes);
	}
}

/* Rotary positions of q and k in packed rows. */
static void
bench_rope(struct bench *b)
{
	const struct bench_model *m = b->m;
	int64_t distinct, rotated = (int64_t)(m->n + m->g) * m->d;
	struct tensor x = take(b, DTYPE_BF16, b->T, rotated + (int64_t)m->g * m->d);
	struct work w = { .rope = { .x = tensor_columns(&x, 0, rotated),
			      .table = take(b, DTYPE_F32, m->s, m->d),
			      .num_heads = m->n + m->g,
			      .head_dim = m->d,
			      .rotary_dim = m->d } };

	w.rope.positions = ids(b, b->T, m->s, m->s, &distinct);
	report(b, "rope", op_rope, &w, 4.0 * (double)b->T * (double)rotated);
}

/* The activation of the MLP. */
static void
bench_act(struct bench *b)
{
	const struct bench_model *m = b->m;
	double half = 2.0 * (double)b->T * (double)m->f, in = m->gated ? 2 * half : half;
	struct tensor x = take(b, DTYPE_BF16, b->T, m->gated ? 2 * m->f : m->f),
		      y = take(b, DTYPE_BF16, b->T, m->f);
	struct work w = { .x = x, .y = y, .kind = m->gated ? ACT_SWIGLU : ACT_GELU_TANH };

	report(b, "act_fwd", op_act, &w, in + half);
	w.act = (struct act_grad){ .kind = w.kind, .dx = x, .dy = y, .x = x };
	report(b, "act_bwd", op_act_bwd, &w, 2 * in + half);
	w.act.y = y;
	report(b, "act_bwd+rebuild", op_act_bwd, &w, 2 * in + 2 * half);
}

/* Loss of a chunk of rows. */
static void
bench_loss(struct bench *b)
{
	const struct bench_model *m = b->m;
	int64_t distinct;
	struct work w = { .xent = { .logits = take(b, DTYPE_BF16, LOGIT_ROWS, m->v),
			      .mask = vector(b, DTYPE_F32, LOGIT_ROWS),
			      .loss = vector(b, DTYPE_F32, LOGIT_ROWS),
			      .zloss = vector(b, DTYPE_F32, LOGIT_ROWS),
			      .parts = 1,
			      .valid_columns = m->v - 40,
			      .grad_scale = 1 } };

	w.xent.labels = ids(b, LOGIT_ROWS, 0, m->v - 40, &distinct);
	report(b, "xent_loss", op_xent, &w, 4.0 * LOGIT_ROWS * (double)m->v);
	w.xent.grad_scale = 0;
	report(b, "xent_loss(no gradient)", op_xent, &w, 2.0 * LOGIT_ROWS * (double)m->v);
}

/* Token and position embeddings. */
static void
bench_embedding(struct bench *b)
{
	const struct bench_model *m = b->m;
	int64_t words, places;
	double row = (double)m->h, bytes = 2.0 * (double)b->T * row;
	struct tensor tokens = ids(b, b->T, 0, m->v, &words),
		      positions = ids(b, b->T, m->s, m->s, &places);
	struct work w = { .embedding = { .y = take(b, DTYPE_BF16, b->T, m->h),
			      .table = take(b, DTYPE_BF16, m->v, m->h),
			      .ids = tokens,
			      .scale = 1 } };

	report(b, "embedding_fwd", op_gather, &w, 2 * bytes);
	w.embedding_grad = (struct embedding_grad){ .dtable = take(b, DTYPE_F32, m->v, m->h),
		.dy = w.embedding.y,
		.ids = tokens,
		.scale = 1,
		.accumulate = true };
	report(b, "embedding_bwd(words)", op_scatter, &w, bytes + 8 * row * (double)words);
	w.embedding_grad.accumulate = false;
	report(b, "embedding_bwd(words, written)", op_scatter, &w, bytes + 4 * row * (double)m->v);
	w.embedding_grad.dtable = tensor_rows(&w.embedding_grad.dtable, 0, m->s);
	w.embedding_grad.ids = positions;
	report(b, "embedding_bwd(positions)", op_scatter, &w, bytes + 4 * row * (double)places);
}

/* The optimizer's and other flat vectors of 2^28 elements. */
static void
bench_flat(struct bench *b)
{
	int64_t n = (int64_t)1 << 28;
	double count = (double)n;
	struct tensor master = vector(b, DTYPE_F32, n), m = vector(b, DTYPE_F32, n),
		      v = vector(b, DTYPE_F32, n), grad = vector(b, DTYPE_F32, n),
		      weight = vector(b, DTYPE_BF16, n);
	struct work w = { .adamw = { .master = master,
			      .exp_avg = m,
			      .exp_avg_sq = v,
			      .grad = grad,
			      .weight = weight,
			      .lr = 1e-4,
			      .beta1 = 0.9,
			      .beta2 = 0.95,
			      .eps = 1e-8,
			      .weight_decay = 0.1,
			      .grad_scale = 1,
			      .correction1 = 0.1,
			      .correction2 = 0.05,
			      .decoupled = true },
		.x = grad,
		.y = weight,
		.out = vector(b, DTYPE_F64, 1),
		.normal = { .key = 1, .std = 0.02 } };

	report(b, "adamw", op_adamw, &w, 30 * count);
	report(b, "dot", op_dot, &w, 4 * count);
	report(b, "count_nonfinite", op_nonfinite, &w, 4 * count);
	report(b, "cast(f32 to bf16)", op_cast, &w, 6 * count);
	w.x = weight;
	w.y = w.normal.x = master;
	report(b, "cast(bf16 to f32)", op_cast, &w, 6 * count);
	report(b, "add(f32 += bf16)", op_add, &w, 10 * count);
	report(b, "fill(f32)", op_fill, &w, 4 * count);
	report(b, "normal(f32)", op_normal, &w, 4 * count);
}

/* Experts, all on this rank. */
struct bench_experts {
	const char *name;
	int64_t rows, h, f, experts, topk;
};

/* Any choice takes a router the same time, and so do rows that go to any expert. */
static struct route
take_route(struct bench *b, const struct bench_experts *m)
{
	return (struct route){ .logits = take(b, DTYPE_F32, m->rows, m->experts),
		.topk = take(b, DTYPE_I32, m->rows, m->topk),
		.weight = take(b, DTYPE_F32, m->rows, m->topk),
		.permutation = take(b, DTYPE_I32, m->rows, m->topk),
		.counts = take(b, DTYPE_I32, 1, m->experts),
		.load = take(b, DTYPE_I32, 1, m->experts),
		.score = ROUTE_SOFTMAX };
}

static void
bench_router(struct bench *b, const struct bench_experts *m)
{
	double logits = 4.0 * (double)m->rows * (double)m->experts,
	       chosen = 4.0 * (double)m->rows * (double)m->topk;
	struct work w = { .route = take_route(b, m) };

	report(b, "route", op_route, &w, logits + 3 * chosen);
	w.route_grad = (struct route_grad){ .fwd = w.route,
		.dweight = take(b, DTYPE_F32, m->rows, m->topk),
		.dlogits = take(b, DTYPE_F32, m->rows, m->experts),
		.balance = 0.01,
		.z = 0.001,
		.received = w.route.counts,
		.round = m->rows,
		.sums = vector(b, DTYPE_F64, m->experts + 5) };
	report(b, "route_grad", op_route_grad, &w, 2 * logits + 3 * chosen);
	w.rows = (struct permute){ .kind = ROWS_PERMUTE,
		.y = take(b, DTYPE_BF16, m->rows * m->topk, m->h),
		.x = take(b, DTYPE_BF16, m->rows, m->h),
		.permutation = w.route.permutation };
	report(b, "permute", op_rows, &w,
	    (double)(tensor_bytes(&w.rows.x) + tensor_bytes(&w.rows.y)) + chosen);
	w.rows = (struct permute){ ROWS_GATHER, w.rows.x, w.rows.y, w.rows.permutation, false };
	report(b, "gather_rows", op_rows, &w,
	    (double)(tensor_bytes(&w.rows.x) + tensor_bytes(&w.rows.y)) + chosen);
	w.expert_act = (struct expert_act){ .kind = ACT_SWIGLU,
		.y = take(b, DTYPE_BF16, m->rows * m->topk, m->f),
		.x = take(b, DTYPE_BF16, m->rows * m->topk, 2 * m->f),
		.weight = take(b, DTYPE_F32, m->rows * m->topk, 1),
		.counts = w.route.counts };
	report(b, "expert_act", op_expert_act, &w,
	    (double)(tensor_bytes(&w.expert_act.x) + tensor_bytes(&w.expert_act.y)));
	w.expert_act_grad = (struct expert_act_grad){ .kind = ACT_SWIGLU,
		.dx = w.expert_act.x,
		.dy = take(b, DTYPE_BF16, m->rows * m->topk, m->f),
		.y = w.expert_act.y,
		.dweight = take(b, DTYPE_F32, m->rows * m->topk, 1),
		.x = w.expert_act.x,
		.weight = w.expert_act.weight,
		.counts = w.route.counts };
	report(b, "expert_act_grad", op_expert_act_grad, &w,
	    2.0 * (double)(tensor_bytes(&w.expert_act.x) + tensor_bytes(&w.expert_act.y)));
}

static void
bench_experts(struct bench *b)
{
	static const struct bench_experts models[] = {
		{ "qwen3-30b-a3b", 8192, 2048, 768, 128, 8 },
		{ "qwen3-30b-a3b, 64k", 65536, 2048, 768, 128, 8 },
		{ "mixtral-8x7b", 8192, 4096, 14336, 8, 2 },
	};

	for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
		struct bench_model name = { .name = models[i].name };

		b->m = &name;
		b->r.used = 0;
		bench_router(b, &models[i]);
	}
}

/* The three GEMMs of a linear layer with k inputs and n outputs on `rows` rows, with GPT-2's
 * activation and bias where the model has them; the gradient of a bias before a residual sum is
 * computed by the norm. */
static void
bench_linear(struct bench *b, const char *name, const int64_t size[3], bool gelu)
{
	int64_t rows = size[0], n = size[1], k = size[2];
	bool bias = b->m->layer_norm && n != b->m->v, overlap = bias && n != b->m->h;
	size_t used = b->r.used;
	struct tensor x = take(b, DTYPE_BF16, rows, k), y = take(b, DTYPE_BF16, rows, n),
		      weight = take(b, DTYPE_BF16, n, k), dw = take(b, DTYPE_F32, n, k),
		      vec = vector(b, DTYPE_BF16, n), dvec = vector(b, DTYPE_F32, n),
		      none = { .data = NULL };
	struct work w = { .gemm = { .c = y,
			      .a = x,
			      .b = weight,
			      .trans_b = true,
			      .alpha = 1,
			      .bias = bias ? vec : none } };
	char line[64];

	snprintf(line, sizeof line, "%s forward", name);
	report_gemm(b, line, op_gemm, &w);
	if (gelu) {
		w.gemm.aux = take(b, DTYPE_BF16, rows, n);
		w.gemm.act = GEMM_GELU;
		snprintf(line, sizeof line, "%s forward+gelu", name);
		report_gemm(b, line, op_gemm, &w);
		/* The gradient of the next layer's input: as wide as this layer's output, from as
		 * many columns as this layer has inputs. */
		w.gemm = (struct gemm){ .c = y,
			.a = x,
			.b = take(b, DTYPE_BF16, k, n),
			.alpha = 1,
			.aux = w.gemm.aux,
			.act = GEMM_GELU_GRAD };
		snprintf(line, sizeof line, "%s input gradient+gelu", name);
		report_gemm(b, line, op_gemm, &w);
	}
	w.gemm = (struct gemm){ .c = x, .a = y, .b = weight, .alpha = 1 };
	snprintf(line, sizeof line, "%s input gradient", name);
	report_gemm(b, line, op_gemm, &w);
	w.gemm = (struct gemm){
		.c = dw, .a = y, .b = x, .trans_a = true, .alpha = 1, .dbias = overlap ? dvec : none
	};
	snprintf(line, sizeof line, "%s weight gradient", name);
	report_gemm(b, line, op_gemm, &w);
	w.gemm.beta = 1;
	snprintf(line, sizeof line, "%s weight gradient, added", name);
	report_gemm(b, line, op_gemm, &w);
	b->r.used = used;
}

/* All GEMMs of a layer and of the head. */
static void
bench_gemms(struct bench *b)
{
	const struct bench_model *m = b->m;
	int64_t q = (int64_t)m->n * m->d, qkv = q + 2 * (int64_t)m->g * m->d;

	bench_linear(b, "qkv", (const int64_t[]){ b->T, qkv, m->h }, false);
	bench_linear(b, "attention out", (const int64_t[]){ b->T, m->h, q }, false);
	bench_linear(
	    b, "fc1", (const int64_t[]){ b->T, m->gated ? 2 * m->f : m->f, m->h }, !m->gated);
	bench_linear(b, "fc2", (const int64_t[]){ b->T, m->h, m->f }, false);
	bench_linear(b, "head", (const int64_t[]){ LOGIT_ROWS, m->v, m->h }, false);
}

/* The GPU's best rates at this moment. */
static void
ceilings(struct bench *b)
{
	static const struct bench_model none = { .name = "ceiling" };
	int64_t n = CEILING_SIDE;
	struct work w = { .x = vector(b, DTYPE_BF16, (int64_t)1 << 30),
		.y = vector(b, DTYPE_BF16, (int64_t)1 << 30) };
	double t;

	b->m = &none;
	t = seconds(b, op_cast, &w);
	b->copy = 2 * (double)tensor_bytes(&w.x) / t;
	printf("ceiling\tcopy\t%.4f\t%.0f\tGB/s\t1\n", t * 1e3, b->copy / 1e9);
	w.gemm = (struct gemm){ .c = take(b, DTYPE_BF16, n, n),
		.a = take(b, DTYPE_BF16, n, n),
		.b = take(b, DTYPE_BF16, n, n),
		.trans_b = true,
		.alpha = 1 };
	t = seconds(b, op_gemm, &w);
	b->gemm = 2.0 * (double)n * (double)n * (double)n / t;
	printf("ceiling\tgemm\t%.4f\t%.1f\tTFLOP/s\t1\n", t * 1e3, b->gemm / 1e12);
	b->r.used = 0;
}

struct group {
	const char *name;
	void (*run)(struct bench *);
};

/* Runs one group of operations if it was requested, or if none was; the next group reuses its
 * memory. */
static void
run_group(struct bench *b, const struct group *g, char *const *asked)
{
	bool wanted = !*asked;

	for (; *asked; asked++)
		wanted |= !strcmp(*asked, g->name);
	if (!wanted)
		return;
	b->r.used = 0;
	g->run(b);
	fflush(stdout);
}

int
main(int argc, char **argv)
{
	static const struct group once[] = { { "flat", bench_flat }, { "experts", bench_experts } },
				  groups[] = {
					  { "norm", bench_norm },
					  { "heads", bench_heads },
					  { "rope", bench_rope },
					  { "act", bench_act },
					  { "loss", bench_loss },
					  { "embedding", bench_embedding },
					  { "gemms", bench_gemms },
				  };
	struct device_config config = { .num_threads = 1, .dtype = DTYPE_BF16 };
	const struct backend *backend = gpu_backend();
	struct bench b = { .T = 0 };

	(void)argc;
	if (!backend)
		return 0;
	b.r = rig_open(backend, &config, (size_t)POOL_GIB << 30);
	printf("model\toperation\tms\trate\tunit\tshare\n");
	ceilings(&b);
	for (size_t i = 0; i < sizeof once / sizeof *once; i++)
		run_group(&b, &once[i], argv + 1);
	for (size_t i = 0; i < BENCH_MODELS; i++) {
		b.m = &bench_models[i];
		b.T = b.m->b * b.m->s;
		for (size_t k = 0; k < sizeof groups / sizeof *groups; k++)
			run_group(&b, &groups[k], argv + 1);
	}
	rig_close(&b.r);
	return 0;
}
