/* foreign.c - the table of other programs' options: sorted, no duplicates, no option that exists or
 * that the public scripts use, no alias of what does not exist */
#include "train/config/foreign.h"

#include "tests/check.h"
#include "train/config/config.h"

#include <ctype.h>
#include <string.h>

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

/* Options as they are typed, whose names exist. */
static void
check_to(const char *name, const char *to, size_t len)
{
	int options = 0;

	for (size_t i = 0; i < len;) {
		size_t n = strcspn(to + i, " ;");
		bool found = false;

		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			found = found ||
			    (o->name && n > 2 && strlen(o->name) == n - 2 &&
				!strncmp(o->name, to + i + 2, n - 2));
		options += to[i] == '-';
		if (to[i] == '-' && !found) {
			fprintf(stderr, "--%s: no option '%.*s'\n", name, (int)n, to + i);
			CHECK(0);
		}
		i += n + (i + n < len);
	}
	CHECK(options > 0);
}

static void
check_values(const struct opt_foreign *f)
{
	for (const char *at = f->values; *at; at += strspn(at, "; ")) {
		size_t len = strcspn(at, ";"), v = strcspn(at, ";=");
		bool found = false;

		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			found = found ||
			    (o->name && strlen(o->name) == v - 1 &&
				!strncmp(o->name, at + 1, v - 1));
		CHECK(v > 0 && (*at != '@' || found));
		if (v < len)
			check_to(f->name, at + v + 1, len - v - 1);
		at += len;
	}
}

/* Each kind has what it needs, and nothing else. */
static void
check_row(const struct opt_foreign *f)
{
	CHECK((f->kind == FOREIGN_ALIAS) == (f->to != NULL));
	CHECK((f->kind == FOREIGN_SAME) == (f->values != NULL));
	CHECK((f->kind == FOREIGN_ALIAS) == (f->why == NULL));
	if (f->to)
		check_to(f->name, f->to, strlen(f->to));
	if (f->values)
		check_values(f);
	if (f->why)
		CHECK(strlen(f->why) < 130 && f->why[strlen(f->why) - 1] != '.');
}

static void
test_table(void)
{
	const struct opt_foreign *r = mtrain_foreign.row;

	for (int n = 0; n < mtrain_foreign.count; n++) {
		check_name(r[n].name);
		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			if (o->name && !strcmp(o->name, r[n].name)) {
				fprintf(stderr, "--%s is another program's and built\n", o->name);
				CHECK(0);
			}
		if (n && strcmp(r[n - 1].name, r[n].name) >= 0) {
			fprintf(stderr, "--%s is not in its place\n", r[n].name);
			CHECK(0);
		}
		CHECK(foreign_find(r[n].name) == &r[n]);
		check_row(&r[n]);
	}
	CHECK(mtrain_foreign.count > 850);
}

static void
test_words(void)
{
	for (const struct opt_word *w = mtrain_foreign.words; w->word; w++) {
		struct str option = { 0 };

		CHECK(!foreign_find(w->word));
		str_addf(&option, "--%s", w->ours);
		check_to(w->word, option.buf, option.len);
		str_release(&option);
	}
}

static enum foreign
kind(const char *name)
{
	const struct opt_foreign *f = foreign_find(name);

	CHECK(f != NULL);
	return f ? f->kind : FOREIGN_SCOPE;
}

static void
test_kinds(void)
{
	for (size_t i = 0; i < sizeof promised / sizeof *promised; i++) {
		bool found = foreign_find(promised[i]) && kind(promised[i]) == FOREIGN_NOTE;

		for (const struct opt *o = mtrain_opts; o->type != OPT_END_TYPE; o++)
			found = found || (o->name && !strcmp(o->name, promised[i]));
		if (!found)
			fprintf(stderr, "--%s is not taken\n", promised[i]);
		CHECK(found);
	}
	CHECK(kind("--use_mpi") == FOREIGN_NOTE);
	CHECK(kind("persistent-save-interval") == FOREIGN_ALIAS);
	CHECK(kind("softmax-type") == FOREIGN_SAME);
	CHECK(kind("fp4-format") == FOREIGN_MATHS);
	CHECK(kind("yaml-cfg") == FOREIGN_LACKS);
	CHECK(kind("override-ckpt-iteration") == FOREIGN_LACKS);
	CHECK(kind("universal-checkpoint") == FOREIGN_LACKS);
	CHECK(kind("load-tag") == FOREIGN_LACKS);
	CHECK(kind("grpo-iterations") == FOREIGN_SCOPE);
	CHECK(!foreign_find("num-experts"));
}

int
main(void)
{
	test_table();
	test_words();
	test_kinds();
	return check_done();
}
