/* data.c - the batches of a run against the samples that Megatron-LM assembled: token for token,
 * label, position, loss mask and document, in the cases of tests/golden/data */
#include "lib/base/prog.h"
#include "tests/golden_lists.h"
#include "train/data/data.h"

#include <dirent.h>
#include <unistd.h>

enum { LENGTH_MAX = 2048 };

/* One split of one case, read as in a run. */
struct reading {
	char name[256], split[512], cache[64];
	char *params;
	int64_t wanted[SPLIT_COUNT];
	enum split which;
	struct train_config c;
};

/* The arrays of a split in a case; without data where the case has none. */
enum { TEXT, TOKENS, LABELS, LOSS_MASK, POSITION_IDS, ATTENTION_MASK, ARRAYS };
static const char *const array_name[ARRAYS] = { "text", "tokens", "labels", "loss_mask",
	"position_ids", "attention_mask" };

static struct comm *world;
static int compared;

/* The run of this split: one sample per step, as many as requested. */
static void
configure(struct reading *g)
{
	struct train_config *c = &g->c;
	int64_t wanted = g->wanted[g->which];
	char v[512];

	c->eod = param_int(g->params, "eod_id");
	c->o.run.model.typed.pad_token_id = *param(g->params, "pad_id", v) == 'n' ? -1 : atoi(v);
	c->o.run.model.typed.bos_token_id = -1;
	c->o.split = g->c.paths.per_split ? "969, 30, 1" : g->split;
	c->o.seed = param_int(g->params, "seed");
	c->o.surplus = atof(param(g->params, "mid_level_dataset_surplus", v));
	c->o.data_cache_path = g->cache;
	c->o.eod_mask_loss = param_int(g->params, "eod_mask_loss");
	c->o.reset_position_ids = param_int(g->params, "reset_position_ids");
	c->o.drop_last_partial = param_int(g->params, "drop_last_partial_validation_sequence");
	c->o.eval_interval = 1 << 30;
	c->o.skip_train = g->which != SPLIT_TRAIN;
	c->o.full_validation = wanted < 0;
	c->o.eval_iters = wanted < 0 ? 1 : g->which == SPLIT_TRAIN ? 0 : wanted;
	/* Any number of samples up to one epoch of one corpus gives one epoch. */
	c->o.train_samples = c->train_iters =
	    wanted < 0 ? split_int(g->params, g->which, "length") : wanted;
	/* Some blends have corpora with different vocabularies. */
	c->plan.model.vocab_size = 1 << 17;
	c->plan.layout = (struct layout){ 1, 1, 1, 1 };
	c->plan.global_batch_size = c->plan.eval_batch_size = 1;
	c->plan.ramp = batch_constant(1);
	c->plan.shape.seq_length = param_int(g->params, "sequence_length");
	c->plan.shape.micro_batch_size = c->plan.shape.num_microbatches = 1;
	c->plan.shape.reset_attention_mask = param_int(g->params, "reset_attention_mask");
}

/* Compares row `row` of a golden array of s columns with the batch. */
static bool
same_row(const struct npy *a, int64_t row, int64_t s, const int32_t *have)
{
	bool same = true;

	for (int64_t i = 0; a->data && i < s; i++)
		same = same && element(a, row * s + i) == have[i];
	return same;
}

/* A golden mask is 1 where a token does not see another. */
static bool
same_mask(const struct npy *mask, int64_t row, int64_t s, const int32_t *documents)
{
	bool same = true;

	for (int64_t k = 0; k < s * s; k++)
		same = same &&
		    (element(mask, row * s * s + k) != 0) ==
			(k % s > k / s || k % s < documents[k / s]);
	return same;
}

/* The raw tokens of a row: inputs, and the last label. Padding is 0 in a batch. */
static bool
same_text(const struct npy *a, int64_t row, int64_t s, const struct batch *b, int64_t pad)
{
	bool same = true;

	for (int64_t i = 0; i <= s; i++) {
		double raw = element(a, row * (s + 2) + 1 + i);
		int32_t have = i < s ? b->tokens[i] : b->labels[s - 1];

		same = same && (raw == -1 || raw == (double)pad ? 0 : raw) == have;
	}
	return same;
}

/* One row of the golden arrays. */
static void
check_row(const struct reading *g, struct data_reader *r, const struct npy a[ARRAYS], int64_t row)
{
	static int32_t tokens[LENGTH_MAX], labels[LENGTH_MAX], positions[LENGTH_MAX],
	    documents[LENGTH_MAX];
	static float mask[LENGTH_MAX];
	const struct batch b = { tokens, labels, positions, mask,
		g->c.plan.shape.reset_attention_mask ? documents : NULL };
	int64_t s = g->c.plan.shape.seq_length,
		pad = g->c.o.run.model.typed.pad_token_id == g->c.eod
	    ? -1
	    : g->c.o.run.model.typed.pad_token_id;
	struct data_place at = { (int)g->which, (int64_t)element(&a[TEXT], row * (s + 2)), 0, 0 };
	bool same;

	memset(documents, 0, sizeof documents);
	CHECK(data_batch(r, &at, &b, &e) >= 0);
	same = same_text(&a[TEXT], row, s, &b, pad) && same_row(&a[TOKENS], row, s, tokens) &&
	    same_row(&a[LABELS], row, s, labels) && same_row(&a[POSITION_IDS], row, s, positions);
	for (int64_t i = 0; a[LOSS_MASK].data && i < s; i++)
		same = same && element(&a[LOSS_MASK], row * s + i) == (double)mask[i];
	if (row < a[ATTENTION_MASK].shape[0])
		same = same && same_mask(&a[ATTENTION_MASK], row, s, documents);
	if (!same)
		fprintf(
		    stderr, "%s: %s: row %lld\n", g->name, split_name[g->which], (long long)row);
	CHECK(same);
	compared++;
}

/* Compares every row of the split in the case. */
static void
check_rows(const struct reading *g, const struct data *d)
{
	struct data_reader *r = data_reader_new(d);
	struct npy a[ARRAYS] = { 0 };
	struct data_set set;
	char path[512];

	data_set(d, (int)g->which, &set);
	CHECK(set.count == split_int(g->params, g->which, "length"));
	for (int i = 0; i < ARRAYS; i++) {
		snprintf(path, sizeof path, "cases/%s/%s.%s.npy", g->name, split_name[g->which],
		    array_name[i]);
		if (io_exists(path) && npy_open(&a[i], path, &e) < 0)
			CHECK(!"golden array");
	}
	for (int64_t row = 0; row < a[TEXT].shape[0]; row++)
		check_row(g, r, a, row);
	for (int i = 0; i < ARRAYS; i++)
		npy_close(&a[i]);
	data_reader_free(r);
}

/* A run cannot request all of a list, all of the test split, or samples without the extra token. */
static bool
can_ask(const struct reading *g)
{
	int64_t wanted = g->wanted[g->which];
	const struct path_list *l = data_paths_list(&g->c.paths, g->which);

	return wanted != 0 && l->count > 0 && split_int(g->params, g->which, "length") > 0 &&
	    param_int(g->params, "add_extra_token_to_sequence") &&
	    !(wanted < 0 && (g->which == SPLIT_TEST || (g->which == SPLIT_TRAIN && l->count > 1)));
}

static void
check_split(const char *name, enum split which)
{
	struct reading g = { .which = which, .cache = "/tmp/mikoshi-data-XXXXXX" };
	struct data *d;
	char path[512];

	snprintf(g.name, sizeof g.name, "%s", name);
	snprintf(path, sizeof path, "cases/%s/params.tsv", name);
	g.params = read_text(path);
	param(g.params, "split", g.split);
	golden_lists(g.params, &g.c.paths, g.wanted);
	if (!strstr(g.params, "expected error") && can_ask(&g)) {
		CHECK(mkdtemp(g.cache) != NULL);
		configure(&g);
		d = data_open(&g.c, world, NULL, &e);
		CHECK(d != NULL);
		if (d)
			check_rows(&g, d);
		else
			fprintf(stderr, "%s: %s: %s\n", name, split_name[which], e.msg);
		data_close(d);
		CHECK(io_remove_tree(g.cache, &e) == 0);
	}
	data_paths_release(&g.c.paths);
	free(g.params);
}

int
main(void)
{
	DIR *dir;
	struct dirent *de;

	prog_quiet(-1);
	world = mpi_world(&e);
	CHECK(world != NULL);
	if (chdir("tests/golden/data") < 0 || !(dir = opendir("cases"))) {
		perror("tests/golden/data");
		return 1;
	}
	while ((de = readdir(dir)))
		for (int w = 0; w < SPLIT_COUNT && de->d_name[0] != '.'; w++)
			check_split(de->d_name, (enum split)w);
	closedir(dir);
	CHECK(compared > 290);
	mpi_end();
	return check_done();
}
