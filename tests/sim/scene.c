/* scene.c - the tiny runs that are simulated */
#include "tests/sim/scene.h"
#include "lib/base/mem.h"
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

int mtrain_main(int argc, char **argv);
int mtok_main(int argc, char **argv);
int mshard_main(int argc, char **argv);
int mckpt_main(int argc, char **argv);
int mexport_main(int argc, char **argv);

#define ZERO(n) "--data-parallel-sharding-strategy " n
#define EXPERTS \
	"--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 16 --disable-bias-linear "

/* A norm's order would follow the stages, and so would the sum of tied weights' gradients. */
#define FREE "--untie-embeddings-and-output-weights --clip-grad 0 "

#define ENCODE "encode --tokenizer-type NullTokenizer --vocab-size 59 --append-eod -q "
#define RESUMED ENCODE "--workers 3 --resume --resume-interval 0.001 -o c c.jsonl"

const struct layout layouts[] = {
	{ "one", 1, "" },
	{ "async", 1, "--async-save --ema-decay 0.75" },
	{ "data", 4, "" },
	{ "zero1", 2, "--use-distributed-optimizer --async-save --bf16" },
	{ "zero2", 4, ZERO("optim_grads") },
	{ "zero3", 2, ZERO("optim_grads_params") " --async-save" },
	{ "tensor", 2, "--tensor-model-parallel-size 2" },
	{ "sequence", 4, "--tensor-model-parallel-size 2 --sequence-parallel --bf16" },
	{ "pipeline", 2, "--pipeline-model-parallel-size 2" },
	{ "chunks", 2,
	    "--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 1" },
	{ "context", 2, "--context-parallel-size 2 --cp-comm-type all_gather" },
	{ "experts", 4, EXPERTS "--expert-model-parallel-size 2 --use-distributed-optimizer" },
	{ "grid", 8,
	    "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
	    "--use-distributed-optimizer --async-save" },
	{ "corpora", 2, "--eval-iters 1 --eval-interval 2", .corpora = true },
	{ "shared", 4, "--pipeline-model-parallel-size 2 --no-mmap-bin-files", .corpora = true },
	{ "host", 2,
	    "--bf16 --optimizer-cpu-offload --optimizer-offload-fraction 0.5 --async-save" },
	{ "rewind", 2, "--rewind-on-spike 1.0001:2:1 --save-interval 1 --save-retain-interval 4",
	    .retained = 4, .rewinds = true },
	{ "ramp", 2, "--rampup-batch-size 4 4 16 --train-samples 32 --use-distributed-optimizer",
	    .samples = true },
	{ "stages", 2, FREE "--pipeline-model-parallel-size 2",
	    .other = { { 1, FREE }, { 4, FREE "--pipeline-model-parallel-size 4" } },
	    .same = SAME_BITS },
	{ "reshaped", 2, "--tensor-model-parallel-size 2",
	    .other = { { 4, "--use-distributed-optimizer" },
		{ 2, "--context-parallel-size 2 --cp-comm-type all_gather" },
		{ 4, "--pipeline-model-parallel-size 2" } },
	    .same = SAME_LOSSES },
	{ "clean", 1, "--save-retain-interval 4 --async-save --save-interval 1", .retained = 4 },
	{ "cast", 1, "cast -q --dtype bf16 made out", "mckpt", mckpt_main, .recorded = true },
	{ "convert", 1, "export -q --to torch made out", "mckpt", mckpt_main, .recorded = true },
	{ "exports", 2, "-q made out", "mexport", mexport_main, .apart = true },
	{ "encode", 1, RESUMED, "mtok", mtok_main },
	{ "join", 1, "cat -q -o d a_text_document b_text_document", "mshard", mshard_main },
	{ "encoders", 2, RESUMED, "mtok", mtok_main, .apart = true },
	{ "exporters", 2, "-q made out%", "mexport", mexport_main, .beside = true },
	{ "joiners", 2, "cat -q -o d% a_text_document b_text_document", "mshard", mshard_main,
	    .beside = true },
};
_Static_assert(sizeof layouts / sizeof *layouts == LAYOUTS, "the number of layouts");

/* Runs that read datasets have more than twice the spots of others, and those of tools take a tenth
 * of the time. */
static int
chances(const struct layout *x)
{
	return x->corpora ? 5 : x->tool ? 3 : 1;
}

int
scene_draw(void)
{
	int all = 0, n, i = 0;

	for (int k = 0; k < LAYOUTS; k++)
		all += chances(&layouts[k]);
	n = (int)draw((uint64_t)all);
	while ((n -= chances(&layouts[i])) >= 0)
		i++;
	return i;
}

static const char config[] = "num-layers 4\nhidden-size 16\nnum-attention-heads 2\nvocab-size 60\n"
			     "seq-length 16\nglobal-batch-size 8\nlr 1e-3\n"
			     "log-interval 1\nnum-threads 2\nsave " SAVE "\nload " SAVE "\n"
			     "metrics-file m\ninit-timeout 30\n";
static const char mock[] = "--mock-data --eval-iters 0 ";
static const char data[] =
    "--data-path 0.6 a_text_document 0.4 b_text_document --tokenizer-type NullTokenizer "
    "--vocab-size 59 --split 80,20,0 --data-cache-path cache ";

/* Documents of a few numbers below 59, which is their end. */
static void
put_text(const char *path, uint64_t x, int documents)
{
	struct str text = { 0 };

	for (int i = 0; i < documents; i++) {
		str_adds(&text, "{\"text\": \"");
		for (uint64_t k = 0, n = 5 + x % 30; k < n; k++) {
			x = x * 16807 % 2147483647;
			str_addf(&text, "%s%d", k ? " " : "", (int)(x % 58));
		}
		str_adds(&text, "\"}\n");
	}
	disk_put(sim.disk, path, text.buf, text.len);
	str_release(&text);
}

void
scene_disk(void)
{
	sim.disk = node_new(true);
	for (int i = 0; i < HOSTS; i++)
		sim.memory[i] = node_new(true);
	disk_put(sim.disk, "run/tiny.conf", config, sizeof config - 1);
	disk_put(sim.disk, "tmp", NULL, 0);
}

/* A program that runs to its end, undisturbed. */
static int
run_alone(const char *tool, int (*program)(int, char **), const char *words, struct str *said)
{
	struct process *p = process_begin(&(struct program){ .name = tool,
	    .main = program,
	    .words = words,
	    .job = JOB_NONE,
	    .rank = -1,
	    .said = said });

	return process_wait(p);
}

int
scene_prepare(const struct layout *x, struct str *said)
{
	int status = 0;

	if (!x->corpora && !x->tool)
		return 0;
	put_text("run/a.jsonl", 1, 60);
	put_text("run/b.jsonl", 2, 40);
	put_text("run/c.jsonl", 3, 400);
	status |= run_alone("mtok", mtok_main, ENCODE "-o a a.jsonl", said);
	status |= run_alone("mtok", mtok_main, ENCODE "-o b b.jsonl", said);
	if (x->tool)
		status |= run_alone("mtrain", mtrain_main,
		    "--num-layers 2 --hidden-size 16 --ffn-hidden-size 24 --swiglu "
		    "--num-attention-heads 2 --vocab-size 60 --seq-length 16 --train-iters 1 --lr "
		    "1e-3 "
		    "--normalization RMSNorm --disable-bias-linear --position-embedding-type rope "
		    "--hidden-dropout 0 --attention-dropout 0 --eval-iters 0 --num-threads 1 "
		    "--mock-data --save made",
		    said);
	return status;
}

struct job *
scene_start(const struct layout *x, int other, const char *extra, bool srun, struct str *said)
{
	const char *options = other ? x->other[other - 1].options : x->options;
	int ranks = other ? x->other[other - 1].ranks : x->ranks;
	struct str words = { 0 };
	struct job *j;

	if (x->tool)
		str_addf(&words, "%s %s", options, extra);
	else
		str_addf(&words, "--config tiny.conf --save-interval 2 %s%s%s %s",
		    x->corpora ? data : mock, x->samples ? "" : "--train-iters 6 ", options, extra);
	j = job_start(&(struct launch){ .tool = x->tool ? x->tool : "mtrain",
	    .main = x->tool ? x->main : mtrain_main,
	    .words = words.buf,
	    .ranks = ranks,
	    .hosts = ranks > 1 && !x->beside && !(x->apart && sim.seed % 2) ? 2 : 1,
	    .srun = srun || x->apart || x->beside,
	    .said = said });
	str_release(&words);
	return j;
}

/* --- images ----------------------------------------------------------------------------------- */

static void
add(struct image *m, const void *bytes, size_t n)
{
	if (m->len + n > m->cap)
		abort();
	if (n)
		memcpy(m->bytes + m->len, bytes, n);
	m->len += n;
}

/* A record is a length of the path, the path, the number of bytes, the bytes. */
static void
save_below(struct image *m, const struct node *n, const char *dir)
{
	for (size_t i = 0; i < n->names.count; i++) {
		const struct entry *x = &n->names.entry[i];
		struct str path = { 0 };

		str_addf(&path, "%s/%s", dir, x->name);
		if (x->node->dir) {
			save_below(m, x->node, path.buf);
		} else {
			add(m, &path.len, sizeof path.len);
			add(m, path.buf, path.len);
			add(m, &x->node->len, sizeof x->node->len);
			add(m, x->node->bytes, x->node->len);
		}
		str_release(&path);
	}
}

void
image_save(struct image *m, const struct node *n)
{
	m->len = 0;
	save_below(m, n, "");
}

void
image_load(const struct image *m, const char *dir)
{
	for (size_t at = 0; at < m->len;) {
		struct str path = { 0 };
		size_t n;

		memcpy(&n, m->bytes + at, sizeof n);
		str_addf(&path, "%s%.*s", dir, (int)n, m->bytes + at + sizeof n);
		at += sizeof n + n;
		memcpy(&n, m->bytes + at, sizeof n);
		disk_put(sim.disk, path.buf, m->bytes + at + sizeof n, n);
		at += sizeof n + n;
		str_release(&path);
	}
}
