/* deepspeed.c - DeepSpeed's configuration beside the options, lengths in tokens, dropped tokens */
#include "lib/base/outfile.h"
#include "lib/base/prog.h"
#include "tests/check.h"
#include "train/config/config.h"
#include "train/config/deepspeed.h"

#include <unistd.h>

enum { WORDS = 64 };

static char path[] = "/tmp/deepspeed-XXXXXX";

/* Parses the words of a line; NULL, or the reason, which the caller frees. */
static char *
parse(struct train_config *c, const char *line)
{
	static char text[1024];
	char *argv[WORDS] = { "mtrain" };
	int argc = 1;
	struct err e;

	snprintf(text, sizeof text, "%s", line);
	for (char *w = strtok(text, " "); w && argc < WORDS - 1; w = strtok(NULL, " "))
		argv[argc++] = strcmp(w, "F") ? w : path;
	train_parse(c, argc, argv, &e);
	return opt_answer(&c->parse, &e) < 0 ? mem_strdup(e.msg) : NULL;
}

/* The line with the file gives this reason; its "F" is the name of the file. */
static void
refuses(const char *json, const char *line, const char *why)
{
	struct train_config c;
	struct err e;
	char *found, want[1024] = "";
	const char *name = strchr(why, '@');

	CHECK(outfile_write(path, json, strlen(json), &e) == 0);
	found = parse(&c, line);
	snprintf(want, sizeof want, "%.*s%s%s", name ? (int)(name - why) : (int)strlen(why), why,
	    name ? path : "", name ? name + 1 : "");
	CHECK_STR(found ? found : "nothing is wrong", want);
	free(found);
	train_release(&c);
}

/* The line with the file gives these options, a line each, and these notes. */
static void
gives(const char *json, const char *line, const char *options, const char *notes)
{
	struct train_config c;
	struct str dump = { 0 }, noted = { 0 };
	struct err e;
	char *found;

	CHECK(outfile_write(path, json, strlen(json), &e) == 0);
	found = parse(&c, line);
	CHECK_STR(found ? found : "", "");
	opt_dump(&c.parse, true, &dump);
	CHECK_STR(dump.buf ? dump.buf : "", options);
	if (*notes) {
		const char *at = c.parse.notes.buf ? strstr(c.parse.notes.buf, notes) : NULL;

		CHECK(at != NULL);
	}
	free(found);
	str_release(&dump);
	str_release(&noted);
	train_release(&c);
}

static void
agreement(void)
{
	gives("{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2}",
	    "--deepspeed --deepspeed_config F --micro-batch-size 2",
	    "micro-batch-size 2\nglobal-batch-size 8\n", "");
	refuses("{\"train_micro_batch_size_per_gpu\": 4}",
	    "--deepspeed_config F --micro-batch-size 2",
	    "--micro-batch-size 2: @ has train_micro_batch_size_per_gpu 4");
	refuses("{\"gradient_clipping\": 0.5}", "--clip-grad 1.0 --deepspeed_config F",
	    "--clip-grad 1: @ has gradient_clipping 0.5");
	gives("{\"gradient_clipping\": 0.5}", "--deepspeed_config F", "clip-grad 0.5\n", "");
	refuses("{\"train_batch_size\": \"auto\"}", "--deepspeed-config F",
	    "--deepspeed-config @: train_batch_size: must be a number");
	refuses(
	    "[1]", "--deepspeed-config F", "--deepspeed-config @: the file: must be a JSON object");
	refuses("{\"curriculum_learning\": {\"enabled\": true}}", "--deepspeed-config F",
	    "--deepspeed-config @: curriculum_learning.enabled: samples by difficulty and layers "
	    "that drop tokens are not supported");
	gives("{\"steps_per_print\": 1, \"zero_optimization\": {\"overlap_comm\": true}}",
	    "--deepspeed_config F", "", "steps_per_print, zero_optimization.overlap_comm");
}

static void
precisions(void)
{
	gives("{\"bf16\": {\"enabled\": true}}", "--deepspeed_config F", "bf16\n", "");
	gives("{\"bf16\": {\"enabled\": false}}", "--deepspeed_config F --fp16", "fp16\n", "");
	refuses("{\"bf16\": {\"enabled\": false}}", "--bf16 --deepspeed_config F",
	    "--bf16: @ has bf16.enabled false");
	refuses("{\"fp16\": {\"enabled\": true}}", "--bf16 --deepspeed_config F",
	    "--bf16: @ has fp16.enabled true");
	gives("{\"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"initial_scale_power\": 11,"
	      " \"loss_scale_window\": 500, \"hysteresis\": 2, \"min_loss_scale\": 1}}",
	    "--deepspeed_config F",
	    "fp16\nloss-scale 0.0\ninitial-loss-scale 2048.0\nmin-loss-scale 1.0\n"
	    "loss-scale-window 500\nhysteresis 2\n",
	    "");
	/* Without fp16 nothing reads them. */
	gives("{\"fp16\": {\"enabled\": false, \"loss_scale_window\": 500}}",
	    "--deepspeed_config F", "", "");
	refuses("{\"fp16\": {\"enabled\": true, \"loss_scale_window\": 500}}",
	    "--fp16 --loss-scale-window 200 --deepspeed_config F",
	    "--loss-scale-window 200: @ has fp16.loss_scale_window 500");
}

static void
stages(void)
{
	gives("{\"zero_optimization\": {\"stage\": 1}}", "--deepspeed_config F",
	    "use-distributed-optimizer\n", "");
	gives("{\"zero_optimization\": {\"stage\": 2}}", "--zero-stage 2 --deepspeed_config F",
	    "data-parallel-sharding-strategy optim_grads\n", "");
	gives("{\"zero_optimization\": {\"stage\": 3}}", "--deepspeed_config F",
	    "data-parallel-sharding-strategy optim_grads_params\n", "");
	gives("{\"zero_optimization\": {\"stage\": 0}}", "--zero-stage 0 --deepspeed_config F", "",
	    "");
	refuses("{\"zero_optimization\": {\"stage\": 2}}",
	    "--use-distributed-optimizer --deepspeed_config F",
	    "--deepspeed-config @: zero_optimization.stage is 2, but the options say stage 1");
	refuses("{\"zero_optimization\": {\"stage\": 1}}", "--zero-stage 0 --deepspeed_config F",
	    "--deepspeed-config @: zero_optimization.stage is 1, but the options say stage 0");
	refuses("{\"zero_optimization\": {\"stage\": 4}}", "--deepspeed_config F",
	    "--deepspeed-config @: zero_optimization.stage: must be from 0 to 3");
}

static void
tokens(void)
{
	gives("{}",
	    "--seq-length 128 --train-tokens 1280 --lr-decay-tokens 640 --lr-warmup-tokens 0",
	    "seq-length 128\ntrain-samples 10\nlr-decay-samples 5\nlr-warmup-samples 0\n",
	    "--train-tokens 1280: is --train-samples 10 here\n");
	gives("{}", "--train-tokens 12_800 --train-samples 5000 --seq-length 128",
	    "seq-length 128\ntrain-samples 100\n", "");
	gives("{}", "--train-tokens 12800 --train-samples 50 --seq-length 128",
	    "seq-length 128\ntrain-samples 50\n", "");
	gives("{}", "--train-tokens 12800 --train-iters 30 --global-batch-size 4 --seq-length 128",
	    "seq-length 128\nglobal-batch-size 4\ntrain-samples 100\n", "");
	gives("{}", "--train-tokens 12800 --train-iters 20 --global-batch-size 4 --seq-length 128",
	    "seq-length 128\nglobal-batch-size 4\ntrain-iters 20\n", "");
	/* A warm-up may end within a sample; a run and a decay may not. */
	gives("{}", "--train-tokens 1280 --lr-warmup-tokens 200 --seq-length 128",
	    "seq-length 128\ntrain-samples 10\nlr-warmup-tokens 200\n",
	    "--train-tokens 1280: is --train-samples 10 here\n"
	    "--lr-warmup-tokens 200: is 1.5625 samples here\n");
	refuses("{}", "--lr-decay-tokens 1000 --seq-length 128",
	    "--lr-decay-tokens 1000: must be a multiple of --seq-length 128 (try 896)");
	refuses("{}", "--train-tokens 1000 --seq-length 128",
	    "--train-tokens 1000: must be a multiple of --seq-length 128 (try 896)");
	refuses("{}", "--train-tokens 1000", "--seq-length: is needed");
}

/* As DeepSpeed's scheduler divides tokens, a warm-up of 1.5625 samples has 64% of the rate at 1. */
static void
warm_up(void)
{
	static const char line[] =
	    "--dry-run --num-layers 2 --hidden-size 32 --num-attention-heads 4 --vocab-size 100 "
	    "--seq-length 128 --global-batch-size 1 --lr 1e-3 --min-lr 0 --train-tokens 1280 "
	    "--lr-warmup-tokens 200 --lr-decay-style linear";
	struct train_config c;
	struct err e = { "" };

	free(parse(&c, line));
	CHECK(train_configure(&c, 1, &e) == 0);
	CHECK_STR(e.msg, "");
	CHECK_NEAR(lr_at(&c.schedule, 1), 1e-3 * 128 / 200, 1e-18);
	CHECK_NEAR(lr_at(&c.schedule, 2), 1e-3 * (1280 - 256) / (1280 - 200), 1e-18);
	train_release(&c);
}

static void
experts(void)
{
	static const char *const lines[] = { "--num-experts 4", "--deepspeed --num-experts 1",
		"--deepspeed --num-experts 4 --disable-moe-token-dropping",
		"--deepspeed --num-experts 4 --moe-expert-capacity-factor 1.0",
		"--deepspeed --num-experts 4" };

	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
		struct train_config c;
		bool dropped = i == sizeof lines / sizeof *lines - 1;
		struct err e;

		free(parse(&c, lines[i]));
		deepspeed_experts(&c);
		CHECK((opt_answer(&c.parse, &e) < 0) == dropped);
		CHECK(!dropped || strstr(e.msg, "drops the tokens above a capacity of 1.0"));
		train_release(&c);
	}
}

int
main(void)
{
	int fd = mkstemp(path);

	prog_quiet(-1);
	CHECK(fd >= 0);
	close(fd);
	agreement();
	precisions();
	stages();
	tokens();
	warm_up();
	experts();
	unlink(path);
	return check_done();
}
