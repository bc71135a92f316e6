/* scene.c - the tiny runs that are simulated */
#include "tests/sim/scene.h"
#include "lib/base/mem.h"
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

int mtok_main(int argc, char **argv);

#define ZERO(n) "--data-parallel-sharding-strategy " n
#define EXPERTS \
	"--num-experts 4 --moe-router-topk 2 --moe-ffn-hidden-size 16 --disable-bias-linear "

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
	{ "clean", 1, "--save-retain-interval 4 --async-save --save-interval 1", .retained = 4 },
};
_Static_assert(sizeof layouts / sizeof *layouts == LAYOUTS, "the number of layouts");

static const char config[] = "num-layers 4\nhidden-size 16\nnum-attention-heads 2\nvocab-size 60\n"
			     "seq-length 16\nglobal-batch-size 8\nlr 1e-3\n"
			     "log-interval 1\nnum-threads 2\nsave C\nload C\n"
			     "metrics-file m\ntrain-iters 6\n";
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

int
scene_encode(struct str *said)
{
	int status = 0;

	put_text("run/a.jsonl", 1, 60);
	put_text("run/b.jsonl", 2, 40);
	for (int i = 0; i < 2 && status == 0; i++) {
		struct process *p = process_begin(&(struct program){ .name = "mtok",
		    .main = mtok_main,
		    .words = i ? "encode --tokenizer-type NullTokenizer --vocab-size 59 "
				 "--append-eod -q -o b b.jsonl"
			       : "encode --tokenizer-type NullTokenizer --vocab-size 59 "
				 "--append-eod -q -o a a.jsonl",
		    .job = JOB_NONE,
		    .rank = -1,
		    .said = said });

		status = process_wait(p);
	}
	return status;
}

struct job *
scene_start(const struct layout *x, const char *extra, struct str *said)
{
	struct str words = { 0 };
	struct job *j;

	str_addf(&words, "--config tiny.conf --save-interval 2 %s%s %s", x->corpora ? data : mock,
	    x->options, extra);
	j = job_start(&(struct launch){
	    .words = words.buf, .ranks = x->ranks, .hosts = x->ranks > 1 ? 2 : 1, .said = said });
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
