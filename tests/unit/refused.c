/* refused.c - the table of refused options: sorted, no duplicates, no empty names, no option that
 * exists or that the public scripts use */
#include "train/config/refused.h"

#include "tests/check.h"
#include "train/config/config.h"

#include <ctype.h>
#include <strings.h>

/* Options of the public launch scripts that must be accepted. */
static const char *const promised[] = {
	"tensor-model-parallel-size",
	"pipeline-model-parallel-size",
	"context-parallel-size",
	"sequence-parallel",
	"use-distributed-optimizer",
	"num-layers",
	"hidden-size",
	"ffn-hidden-size",
	"num-attention-heads",
	"group-query-attention",
	"num-query-groups",
	"seq-length",
	"max-position-embeddings",
	"micro-batch-size",
	"global-batch-size",
	"train-iters",
	"tokenizer-type",
	"tokenizer-model",
	"load",
	"finetune",
	"save",
	"data-path",
	"split",
	"distributed-backend",
	"init-method-std",
	"lr",
	"min-lr",
	"lr-decay-style",
	"lr-decay-iters",
	"weight-decay",
	"clip-grad",
	"lr-warmup-iters",
	"optimizer",
	"adam-beta1",
	"adam-beta2",
	"adam-eps",
	"log-interval",
	"save-interval",
	"eval-interval",
	"eval-iters",
	"bf16",
	"use-checkpoint-args",
	"untie-embeddings-and-output-weights",
	"no-position-embedding",
	"position-embedding-type",
	"rope-theta",
	"disable-bias-linear",
	"use-mcore-models",
	"normalization",
	"norm-epsilon",
	"no-masked-softmax-fusion",
	"attention-dropout",
	"hidden-dropout",
	"swiglu",
	"use-flash-attn",
	"attention-softmax-in-fp32",
	"recompute-activations",
	"recompute-granularity",
	"transformer-impl",
	"fp8-format",
	"fp8-amax-compute-algo",
	"fp8-amax-history-len",
	"fp8-param-gather",
	"use-z-loss",
	"log-throughput",
	"wandb-name",
	"wandb-project",
	"wandb-entity",
	"fp16",
	"vocab-file",
	"merge-file",
	"tensorboard-dir",
	"kv-channels",
	"rotary-base",
	"rotary-percent",
	"attention-backend",
	"apply-layernorm-1p",
	"train-samples",
	"lr-decay-samples",
	"lr-warmup-samples",
	"decoupled-lr",
	"decoupled-min-lr",
	"grad-reduce-in-bf16",
	"cross-entropy-loss-fusion",
	"calculate-per-token-loss",
	"manual-gc",
	"empty-unused-memory-level",
	"exit-duration-in-mins",
	"overlap-grad-reduce",
	"overlap-param-gather",
	"mock-data",
	"vocab-size",
	"data-cache-path",
	"tiktoken-pattern",
	"no-create-attention-mask-in-dataloader",
	"no-mmap-bin-files",
	"num-workers",
	"profile",
	"profile-step-start",
	"profile-step-end",
	"ckpt-format",
	"distributed-timeout-minutes",
};

/* True for a name that option parsing can match: dashes only inside, no underscore. */
static void
check_name(const char *name)
{
	size_t len = strlen(name);

	CHECK(len > 0 && name[0] != '-' && name[len - 1] != '-');
	for (size_t i = 0; i < len; i++)
		CHECK(isalnum((unsigned char)name[i]) || name[i] == '-');
}

static void
test_table(void)
{
	const struct opt_refused *r = mtrain_refused;
	int n = 0;

	for (; r[n].name; n++) {
		check_name(r[n].name);
		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			if (o->name && !strcmp(o->name, r[n].name)) {
				fprintf(stderr, "--%s is refused and built\n", o->name);
				CHECK(0);
			}
		CHECK(r[n].why && r[n].why[0] && strlen(r[n].why) < 70);
		for (int i = 0; i < n; i++)
			if (!strcasecmp(r[i].name, r[n].name)) {
				fprintf(stderr, "--%s occurs twice\n", r[n].name);
				CHECK(0);
			}
		if (n) {
			int order = strcmp(r[n - 1].why, r[n].why);

			CHECK(order < 0 || (order == 0 && strcmp(r[n - 1].name, r[n].name) < 0));
		}
	}
	CHECK(n > 700);
}

static const char *
reason(const char *name)
{
	for (const struct opt_refused *r = mtrain_refused; r->name; r++)
		if (!strcmp(r->name, name))
			return r->why;
	return "";
}

static void
test_reasons(void)
{
	for (size_t i = 0; i < sizeof promised / sizeof *promised; i++)
		CHECK_STR(reason(promised[i]), "");
	CHECK_STR(reason("fp4-format"), "FP4, and this form of FP8, are not supported");
	CHECK_STR(reason("num-experts"), "");
	CHECK_STR(reason("moe-input-jitter-eps"), "experts have no such setting here");
	CHECK_STR(reason("zero-stage"), "use --use-distributed-optimizer");
}

int
main(void)
{
	test_table();
	test_reasons();
	return check_done();
}
