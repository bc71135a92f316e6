/* scene.c - the tiny runs that are simulated */
#include "tests/sim/scene.h"
#include "lib/base/mem.h"
#include "tests/sim/disk.h"

#include <stdlib.h>
#include <string.h>

const struct layout layouts[] = {
	{ "one", 1, "" },
	{ "data", 4, "" },
	{ "tensor", 2, "--tensor-model-parallel-size 2" },
	{ "pipeline", 2, "--pipeline-model-parallel-size 2" },
};
_Static_assert(sizeof layouts / sizeof *layouts == LAYOUTS, "the number of layouts");

static const char config[] = "num-layers 4\nhidden-size 16\nnum-attention-heads 2\nvocab-size 60\n"
			     "seq-length 16\nglobal-batch-size 8\nlr 1e-3\neval-iters 0\n"
			     "log-interval 1\nnum-threads 2\nmock-data\nsave C\nload C\n"
			     "metrics-file m\nsave-interval 2\ntrain-iters 6\n";

void
scene_disk(void)
{
	sim.disk = node_new(true);
	for (int i = 0; i < HOSTS; i++)
		sim.memory[i] = node_new(true);
	disk_put(sim.disk, "run/tiny.conf", config, sizeof config - 1);
	disk_put(sim.disk, "tmp", NULL, 0);
}

struct job *
scene_start(const struct layout *x, struct str *said)
{
	struct str words = { 0 };
	struct job *j;

	str_addf(&words, "--config tiny.conf %s", x->options);
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
