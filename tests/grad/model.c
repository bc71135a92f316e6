/*
 * model.c - gradients of whole models in double precision against central differences
 *
 * Each case is a line of options. Random elements of every parameter are changed by +-1e-5; the
 * difference quotient of the total loss must equal the gradient to 1e-6. Loss masks are uneven;
 * dropout draws the same masks every time.
 */
#include "lib/base/prog.h"
#include "lib/base/rng.h"
#include "lib/model/options.h"
#include "tests/check.h"
#include "train/engine/grads.h"
#include "train/layers/router.h"
#include "train/step/open.h"
#include "train/step/pipeline.h"

enum { PROBES = 6 };

/* What multiplies the losses of routers. */
static const double factor = 0.75;

static const char base[] =
    "num-layers 2\nhidden-size 16\nnum-attention-heads 4\nseq-length 8\nvocab-size 29\nfp64\n"
    "micro-batch-size 2\nglobal-batch-size 4\ninit-method-std 0.2\n";

#define EXPERTS \
	"ffn-hidden-size 20\nmoe-ffn-hidden-size 12\nnormalization RMSNorm\n" \
	"position-embedding-type rope\ndisable-bias-linear\n"

#define LATENTS \
	EXPERTS "multi-latent-attention\nqk-layernorm\nkv-lora-rank 6\nqk-pos-emb-head-dim 4\n"

#define LINEAR \
	EXPERTS "linear-num-key-heads 2\nlinear-num-value-heads 4\nlinear-key-head-dim 6\n" \
		"linear-value-head-dim 5\n"

static const char *const cases[] = {
	"swiglu\nffn-hidden-size 24\nnormalization RMSNorm\nposition-embedding-type "
	"rope\ndisable-bias-linear\n"
	"num-query-groups 2\n"
	"untie-embeddings-and-output-weights\nattention-dropout 0\nhidden-dropout 0\n",
	"attention-dropout 0.1\nhidden-dropout 0.2\n",
	"activation geglu\nffn-hidden-size 20\nposition-embedding-type rope\nrotary-percent "
	"0.5\nrotary-interleaved\n"
	"num-query-groups 1\n"
	"window-size 3\nkv-channels 8\nattention-dropout 0\nhidden-dropout 0.1\n",
	"squared-relu\nnormalization RMSNorm\nposition-embedding-type "
	"none\nlinear-biases qkv\n"
	"attention-dropout 0.3\nhidden-dropout 0\nembedding-dropout 0.2\n",
	"activation gelu-erf\nposition-embedding-type "
	"rope\nuntie-embeddings-and-output-weights\nkv-channels 6\n"
	"attention-dropout 0\nhidden-dropout 0\nmake-vocab-size-divisible-by 7\n",
	"qk-layernorm\nnormalization RMSNorm\nposition-embedding-type rope\nnum-query-groups 2\n"
	"attention-dropout 0\nhidden-dropout 0\n",
	"qk-layernorm\nrecompute-activations\nattention-dropout 0.1\nhidden-dropout 0\n",
	"softmax-type learnable\nnum-query-groups 2\nwindow-size 3\nwindow-attn-skip-freq 2\n"
	"attention-dropout 0\nhidden-dropout 0\n",
	"softmax-type off-by-one\nattention-dropout 0.1\nhidden-dropout 0\n",
	"position-embedding-type rope\nrotary-base 100\nrope-scaling-type yarn\nyarn-beta-fast 2\n"
	"rope-scaling-factor 4\nrope-original-positions 8\nyarn-attention-factor 1.5\n"
	"add-qkv-bias\ndisable-bias-linear\nattention-dropout 0\nhidden-dropout 0\n",
	"window-size 3\nwindow-attn-skip-freq 2\nposition-embedding-type rope\nrotary-base 500\n"
	"no-rope-freq 2\nresidual-multiplier 0.3\nlogits-scaling 0.7\n"
	"rope-scaling-type linear\nrope-scaling-factor 4\nsliding-window-rope-base 20\n"
	"query-pre-attn-scalar 9\nattn-logit-softcapping 0.5\nfinal-logit-softcapping 0.8\n"
	"attention-dropout 0\nhidden-dropout 0\n",
	"norm-placement both\nscale-embeddings-by-hidden-size\napply-layernorm-1p\nnormalization "
	"RMSNorm\nqk-layernorm\n"
	"activation geglu\nffn-hidden-size 20\nposition-embedding-type rope\nlinear-biases mlp "
	"proj\n"
	"attention-dropout 0\nhidden-dropout 0.1\n",
	"norm-placement post\nqk-layernorm\nqk-layernorm-hidden-dim\nnum-query-groups 2\n"
	"position-embedding-type rope\nrecompute-activations\nattention-dropout 0\n"
	"hidden-dropout 0\n",
	"norm-placement post\nnormalization RMSNorm\nswiglu\nffn-hidden-size 24\n"
	"recompute-granularity full\nrecompute-method uniform\nrecompute-num-layers 1\n"
	"attention-dropout 0\nhidden-dropout 0\n",
	"use-parallel-residual\nposition-embedding-type rope\nrotary-percent 0.5\n"
	"untie-embeddings-and-output-weights\nattention-dropout 0.1\nhidden-dropout 0.2\n",
	"use-parallel-residual\nshared-parallel-norm\nnorm-without-bias\nswiglu\n"
	"ffn-hidden-size 24\nnum-query-groups 2\nposition-embedding-type rope\nrotary-interleaved\n"
	"logits-scaling 0.7\nattention-dropout 0\nhidden-dropout 0\n",
	"use-parallel-residual\nactivation gelu-erf\nrecompute-granularity full\n"
	"recompute-method uniform\nrecompute-num-layers 2\nattention-dropout 0\nhidden-dropout 0\n",
	EXPERTS "swiglu\nnum-experts 6\nmoe-router-topk 2\nmoe-router-topk-scaling-factor 0.4\n"
		"moe-router-num-groups 3\nmoe-router-group-topk 1\nmoe-router-group-scores 1\n"
		"moe-aux-loss-coeff 0.3\nmoe-z-loss-coeff 0.2\n"
		"attention-dropout 0\nhidden-dropout 0\n",
	EXPERTS "num-experts 4\nmoe-router-topk "
		"3\nmoe-router-pre-softmax\nmoe-router-topk-scaling-factor 3\n"
		"moe-aux-loss-coeff 0.3\n"
		"moe-expert-capacity-factor 0.7\n"
		"moe-router-load-balancing-type seq_aux_loss\nmoe-layer-freq [0,1]\n"
		"moe-shared-expert-intermediate-size 10\nactivation gelu\n"
		"recompute-granularity full\nattention-dropout 0\nhidden-dropout 0.1\n",
	EXPERTS
	"swiglu\nnum-experts 6\nmoe-router-topk 2\nmoe-router-score-function sigmoid\n"
	"moe-router-enable-expert-bias\nmoe-aux-loss-coeff 0.3\nmoe-z-loss-coeff 0.2\n"
	"moe-router-topk-scaling-factor 2.5\nmoe-router-num-groups 3\nmoe-router-group-topk 2\n"
	"moe-router-group-scores 2\n"
	"moe-shared-expert-intermediate-size 12\nnorm-placement both\n"
	"moe-shared-expert-gate\n"
	"moe-expert-capacity-factor 1.1\nmoe-token-drop-policy position\n"
	"recompute-activations\nattention-dropout 0\nhidden-dropout 0\n",
	EXPERTS "swiglu\nnum-experts 3\nmoe-router-topk 2\nmoe-shared-expert-gate\n"
		"moe-shared-expert-intermediate-size 14\nrecompute-granularity full\n"
		"attention-dropout 0\nhidden-dropout 0.1\n",
	LATENTS "q-lora-rank 7\nqk-head-dim 4\nv-head-dim 5\nrope-scaling-type yarn\nmscale 0.7\n"
		"mscale-all-dim 1.2\nrope-scaling-factor 4\nrope-original-positions 8\n"
		"latent-norm-epsilon 0.1\nattention-dropout 0.2\nhidden-dropout 0\n",
	LATENTS "qk-head-dim 3\nv-head-dim 8\nrecompute-activations\napply-layernorm-1p\n"
		"window-size 3\nattention-dropout 0\nhidden-dropout 0.1\n",
	LATENTS "q-lora-rank 5\nqk-head-dim 4\nv-head-dim 2\nrecompute-granularity full\n"
		"num-experts 6\nmoe-router-topk 2\nmoe-layer-freq [0,1]\nswiglu\n"
		"moe-router-score-function sigmoid\nmoe-shared-expert-intermediate-size 10\n"
		"attention-dropout 0\nhidden-dropout 0\n",
	EXPERTS "num-experts 5\nmoe-router-topk 2\nquick-geglu\nglu-linear-offset 1\n"
		"activation-func-clamp-value 7\nlinear-biases qkv proj mlp\n"
		"softmax-type learnable\nwindow-size 3\nwindow-attn-skip-freq 2\n"
		"moe-aux-loss-coeff 0.3\nattention-dropout 0\nhidden-dropout 0\n",
	EXPERTS "swiglu\nnum-experts 5\nmoe-router-topk 2\nmoe-router-score-function sigmoid\n"
		"moe-aux-loss-coeff 0.3\nmoe-router-load-balancing-type global_aux_loss\n"
		"recompute-granularity full\nattention-dropout 0\nhidden-dropout 0\n",
	EXPERTS "num-experts 3\nmoe-router-topk 2\nactivation gelu-erf\nlinear-biases mlp\n"
		"moe-layer-freq [0,1]\nmoe-expert-capacity-factor 0.7\n"
		"recompute-granularity full\nattention-dropout 0\nhidden-dropout 0.1\n",
	LINEAR "linear-attention-freq 2\nattention-output-gate\nqk-layernorm\nswiglu\n"
	       "num-query-groups 2\nkv-channels 8\nrotary-percent 0.5\napply-layernorm-1p\n"
	       "num-experts 5\nmoe-router-topk 2\nmoe-shared-expert-intermediate-size 10\n"
	       "moe-shared-expert-gate\nattention-dropout 0\nhidden-dropout 0.1\n",
	LINEAR "linear-attention-freq [1,1]\nlinear-conv-kernel-dim 2\nnorm-placement both\n"
	       "recompute-granularity full\nrecompute-method uniform\nrecompute-num-layers 2\n"
	       "attention-dropout 0\nhidden-dropout 0\n",
	LINEAR "linear-attention-freq [0,1]\nattention-output-gate\nrecompute-activations\n"
	       "residual-multiplier 0.3\nattention-dropout 0.1\nhidden-dropout 0\n",
	EXPERTS "num-experts 3\nmoe-router-topk 1\nmoe-router-pre-softmax\nsquared-relu\n"
		"moe-router-load-balancing-type none\nuse-parallel-residual\nmoe-layer-freq 2\n"
		"shared-parallel-norm\n"
		"attention-dropout 0\nhidden-dropout 0\n",
	"swiglu\nffn-hidden-size 24\nnormalization RMSNorm\nposition-embedding-type rope\n"
	"disable-bias-linear\nnum-query-groups 2\nuntie-embeddings-and-output-weights\n"
	"mtp-num-layers 2\nmtp-loss-scaling-factor 0.7\nrecompute-activations\n"
	"attention-dropout 0\nhidden-dropout 0\n",
	"mtp-num-layers 2\nmtp-loss-scaling-factor 0.4\nhidden-dropout 0.1\n",
	"position-embedding-type rope\nmtp-num-layers 2\nmtp-loss-scaling-factor 1.3\n"
	"norm-placement both\nlogits-scaling 0.7\nfinal-logit-softcapping 0.8\n"
	"recompute-granularity full\nhidden-dropout 0.1\nembedding-dropout 0.2\n",
	LATENTS "q-lora-rank 5\nqk-head-dim 4\nv-head-dim 2\nmtp-num-layers 1\n"
		"num-experts 6\nmoe-router-topk 2\nmoe-layer-freq [0,1]\nswiglu\n"
		"moe-router-score-function sigmoid\nmoe-shared-expert-intermediate-size 10\n"
		"moe-aux-loss-coeff 0.3\nmtp-loss-scaling-factor 0.5\n"
		"untie-embeddings-and-output-weights\nattention-dropout 0\nhidden-dropout 0\n",
};

struct options {
	struct run_options run;
};
static const struct opt table[] = { RUN_OPTS(struct options, run), OPT_END };

struct fixture {
	struct engine e;
	struct batch batch[2];
};

/* Labels of later tokens and uneven weights of theirs. */
static void
make_later(const struct fixture *f, struct batch *x, unsigned long seed)
{
	int64_t rows = f->e.plan.shape.seq_length * f->e.plan.shape.micro_batch_size,
		n = rows * f->e.plan.model.mtp_num_layers;

	x->later_labels = calloc((size_t)n + 1, 4);
	x->later_mask = calloc((size_t)n + 1, 4);
	x->later_positions = calloc((size_t)n + 1, 4);
	for (int64_t i = 0; i < n; i++) {
		x->later_labels[i] = (int32_t)(29 * rng_uniform(seed, (uint64_t)i, 4, 0));
		x->later_positions[i] = (int32_t)((i + i / rows) % f->e.plan.shape.seq_length);
		x->later_mask[i] = fmaxf(0, 2 * rng_uniform(seed, (uint64_t)i, 5, 0) - 0.5f);
	}
}

/* Tokens, labels and masks of two micro batches, drawn by the seed. */
static void
make_batches(struct fixture *f, unsigned long seed)
{
	int64_t rows = f->e.plan.shape.seq_length * f->e.plan.shape.micro_batch_size,
		b = f->e.plan.shape.micro_batch_size;

	for (int m = 0; m < 2; m++) {
		struct batch *x = &f->batch[m];

		*x = (struct batch){ calloc((size_t)rows, 4), calloc((size_t)rows, 4),
			calloc((size_t)rows, 4), calloc((size_t)rows, 4) };
		for (int64_t i = 0; i < rows; i++) {
			x->tokens[i] =
			    (int32_t)(29 * rng_uniform(seed, (uint64_t)i, 1, (uint32_t)m));
			x->labels[i] =
			    (int32_t)(29 * rng_uniform(seed, (uint64_t)i, 2, (uint32_t)m));
			x->positions[i] = (int32_t)(i / b);
			x->loss_mask[i] =
			    rng_uniform(seed, (uint64_t)i, 3, (uint32_t)m) > 0.2f * (float)(m + 1);
		}
		make_later(f, x, seed + (unsigned long)m);
	}
}

static void
give(void *ctx, int microbatch, struct batch *out)
{
	*out = ((struct fixture *)ctx)->batch[microbatch];
}

/* What the routers of all layers add to it: the two losses of docs/math.md 5.3, summed over
 * tokens. */
static double
router_losses(const struct engine *e)
{
	const struct model_config *c = &e->plan.model;
	struct tensor sums = engine_buffer(e, BUF_ROUTER_SUMS);
	double total = 0;

	for (int64_t i = 0; sums.data && i < sums.shape[0]; i++) {
		const double *s = (double *)sums.data + i * sums.shape[1] + c->num_experts;
		double scope = router_group_tokens(&e->plan);

		total += c->moe_z_loss_coeff * s[ROUTER_SQUARE];
		if (c->moe_router_load_balancing_type != BALANCING_NONE)
			total += c->moe_aux_loss_coeff * (double)c->num_experts /
			    ((double)c->moe_router_topk * scope) * s[ROUTER_BALANCE];
	}
	return total;
}

/* What the layers after the head add to it. */
static double
later_losses(const struct engine *e, const double *scalar)
{
	const struct model_config *c = &e->plan.model;
	double sum = 0;

	for (int64_t i = 0; i < c->mtp_num_layers; i++)
		sum += scalar[SCALAR_LATER + i];
	return c->mtp_num_layers ? c->mtp_loss_scaling_factor / (double)c->mtp_num_layers * sum : 0;
}

/* Total loss of the step; also accumulates gradients. */
static double
loss(struct fixture *f)
{
	struct pipeline p = { .e = &f->e,
		.num_microbatches = 2,
		.training = true,
		.iteration = 3,
		.first_sample = 40,
		.load = give,
		.ctx = f };
	double s[SCALAR_COUNT];

	engine_zero_scalars(&f->e);
	engine_weigh_routers(&f->e, factor);
	pipeline_run(&p);
	engine_read_scalars(&f->e, s);
	return s[SCALAR_LOSS] + s[SCALAR_ZLOSS] + factor * router_losses(&f->e) +
	    later_losses(&f->e, s);
}

/* The difference quotient of the loss at an element. */
static double
quotient(struct fixture *f, double *x, double step)
{
	double old = *x, up, down;

	*x = old + step;
	up = loss(f);
	*x = old - step;
	down = loss(f);
	*x = old;
	return (up - down) / (2 * step);
}

/* A key bias changes all scores of a query equally, so its gradient is zero except for rounding.
 * That of a loss of about 100 is 1e-9 of a difference. */
static double
error_of(double numeric, double grad, double scale)
{
	return fabs(numeric - grad) / fmax(fmax(fabs(numeric), 1e-2 * scale), 4e-3);
}

/* Changes some elements of one parameter and compares. Where the loss is steep in the third order,
 * as it is in what is divided by a short length, the quotient of twice the step takes that out. */
static void
check_param(struct fixture *f, int shard, const double *grads, unsigned long seed)
{
	const struct param *p = &f->e.table[f->e.mem.shards.item[shard].param];
	struct tensor all = engine_buffer(&f->e, BUF_WEIGHTS);
	int64_t n = param_elements(p), offset = f->e.mem.shards.item[shard].offset;
	double scale = 0;

	for (int64_t i = 0; i < n; i++)
		scale = fmax(scale, fabs(grads[offset + i]));
	for (int k = 0; k < PROBES; k++) {
		int64_t i =
		    (int64_t)(rng_uniform(seed, (uint64_t)k, rng_stream(p->name), 9) * (float)n);
		double *x = (double *)all.data + offset + i, step = 1e-5,
		       numeric = quotient(f, x, step),
		       error = error_of(numeric, grads[offset + i], scale);

		if (error > 1e-6) {
			numeric = (4 * numeric - quotient(f, x, 2 * step)) / 3;
			error = error_of(numeric, grads[offset + i], scale);
		}
		if (error > 1e-6)
			fprintf(stderr, "%s[%lld]: gradient %.12g, difference %.12g\n", p->name,
			    (long long)i, grads[offset + i], numeric);
		CHECK(error <= 1e-6);
	}
}

static void
check_case(const char *options, struct comm *world, unsigned long seed)
{
	struct options o = { .run.model.path = NULL };
	struct opt_parse parse;
	struct run_plan plan;
	struct str notes = { 0 };
	struct err err = { "" };
	struct fixture f;
	struct engine_config c = {
		.plan = &plan, .backend = &backend_cpu, .num_threads = 2, .seed = 77, .z_loss = 1e-2
	};
	struct tensor g;
	double *grads;
	int rc;

	opt_begin(&parse, table, &o);
	rc = opt_text(&parse, "base", base, false, &err) < 0 ||
	    opt_text(&parse, "case", options, false, &err) < 0 ||
	    run_resolve(&parse, &o.run, 1, 0, &plan, &notes, &err) < 0 ||
	    engine_open(&f.e, &c, world, &err) < 0;
	if (rc)
		fprintf(stderr, "%s\n", err.msg);
	CHECK(rc == 0);
	if (rc)
		return;
	engine_init_weights(&f.e);
	make_batches(&f, seed);
	loss(&f);
	g = engine_buffer(&f.e, BUF_GRADS);
	grads = malloc(tensor_bytes(&g));
	memcpy(grads, g.data, tensor_bytes(&g));
	for (int i = 0; i < f.e.mem.shards.count; i++)
		if (!(f.e.table[f.e.mem.shards.item[i].param].flags & PARAM_BALANCE))
			check_param(&f, i, grads, seed);
	free(grads);
	for (int m = 0; m < 2; m++) {
		free(f.batch[m].tokens);
		free(f.batch[m].labels);
		free(f.batch[m].positions);
		free(f.batch[m].loss_mask);
		free(f.batch[m].later_labels);
		free(f.batch[m].later_mask);
		free(f.batch[m].later_positions);
	}
	engine_close(&f.e);
	str_release(&notes);
	opt_release(&parse);
}

int
main(int argc, char **argv)
{
	struct err err;
	struct comm *world;
	unsigned long seed = check_seed();

	(void)argc;
	prog_begin(argv[0]);
	world = mpi_world(&err);
	CHECK(world != NULL);
	for (size_t i = 0; world && i < sizeof cases / sizeof *cases; i++)
		check_case(cases[i], world, seed);
	mpi_end();
	return check_done();
}
