/* blend.c - blends, lists of corpora and samplers against the outputs of Megatron-LM in
 * tests/golden/data */
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/data/blend.h"
#include "lib/data/sampler.h"
#include "tests/golden_lists.h"
#include "tests/map_keys.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

/* One case: its parameters, lists and the directory that its files are written to. */
struct golden {
	char name[256], cache[64], split[512], tokenizer[512];
	char *params;
	struct data_paths paths;
	int64_t wanted[SPLIT_COUNT];
	struct blend_config config;
	struct pool *pool;
};

static void
read_case(struct golden *g)
{
	char path[512], v[512];

	snprintf(path, sizeof path, "cases/%s/params.tsv", g->name);
	g->params = read_text(path);
	golden_lists(g->params, &g->paths, g->wanted);
	snprintf(g->split, sizeof g->split, "%s", param(g->params, "split", v));
	golden_tokenizer(g->params, g->tokenizer);
	strcpy(g->cache, "/tmp/mikoshi-blend-XXXXXX");
	CHECK(mkdtemp(g->cache) != NULL);
	g->config = (struct blend_config){
		.samples = { .split = g->split,
		    .seq_length = param_int(g->params, "sequence_length"),
		    .seed = param_int(g->params, "seed"),
		    .add_extra_token = param_int(g->params, "add_extra_token_to_sequence"),
		    .tokenizer_json = g->tokenizer,
		    .cache_dir = g->cache,
		    .write_cache = true },
		.surplus = atof(param(g->params, "mid_level_dataset_surplus", v)),
		.pool = g->pool,
	};
}

/* "train.KEY" or, with k from 0 on, "train.K.KEY". */
static const char *
split_param(const struct golden *g, int k, const char *key, char out[512])
{
	char name[128];

	if (k < 0)
		snprintf(name, sizeof name, "%s.%s", split_name[g->config.samples.which], key);
	else
		snprintf(
		    name, sizeof name, "%s.%d.%s", split_name[g->config.samples.which], k, key);
	return param(g->params, name, out);
}

/* HASH-CLASS-SPLIT-NAME of the cache is the case's PART.NAME. */
static void
check_file(const struct golden *g, const char *hash, const char *class_name, const char *part,
    const char *name)
{
	const char *split = split_name[g->config.samples.which];
	char have[1024], want[1024];

	snprintf(have, sizeof have, "%s/%s-%s-%s-%s", g->cache, hash, class_name, split, name);
	snprintf(want, sizeof want, "cases/%s/%s%s.%s", g->name, split, part, name);
	check_same_file(have, want);
}

/* Each corpus: the request to it, its hash and its four files. */
static void
check_corpora(const struct golden *g, const struct blend *b)
{
	static const char *const name[] = { "description.txt", "document_index.npy",
		"sample_index.npy", "shuffle_index.npy" };
	int64_t drawn = 0;
	char v[512], part[16];

	for (int k = 0; k < blend_num_corpora(b); k++) {
		struct blend_corpus c;
		int at = blend_num_stages(b) == 0 ? -1 : k;

		blend_corpus(b, k, &c);
		CHECK_STR(samples_hash(c.samples), split_param(g, at, "hash", v));
		CHECK(c.num_samples ==
		    (*split_param(g, at, "num_samples_requested", v) == 'N' ? -1 : atoll(v)));
		CHECK(samples_count(c.samples) == atoll(split_param(g, at, "length", v)));
		CHECK(c.drawn <= samples_count(c.samples));
		drawn += c.drawn;
		snprintf(part, sizeof part, at < 0 ? "" : ".%d", k);
		for (int i = 0; i < 4; i++)
			check_file(g, samples_hash(c.samples), "GPTDataset", part, name[i]);
	}
	CHECK(drawn == blend_count(b));
}

/* Compares the raw tokens of the samples that the case lists. */
static void
check_tokens(const struct golden *g, const struct blend *b)
{
	struct npy text;
	char path[512];
	int64_t ids[1100];

	snprintf(path, sizeof path, "cases/%s/%s.text.npy", g->name,
	    split_name[g->config.samples.which]);
	if (blend_count(b) == 0 || npy_open(&text, path, &e) < 0) {
		CHECK(blend_count(b) == 0);
		return;
	}
	for (int64_t row = 0; row < text.shape[0]; row++) {
		int64_t width = text.shape[1],
			n = blend_tokens(b, (int64_t)element(&text, row * width), ids, &e), at = 0;
		struct sample_part part[1100];
		bool same = n <= width - 1;
		int corpus;

		for (int64_t i = 0; i + 1 < width; i++)
			same = same &&
			    (i < n ? (double)ids[i] : -1) == element(&text, row * width + i + 1);
		CHECK(same);
		n = blend_parts(b, (int64_t)element(&text, row * width), &corpus, part, 1100);
		for (int64_t i = 0; i < n; i++) {
			struct blend_corpus c;
			int64_t first;

			blend_corpus(b, corpus, &c);
			CHECK(dataset_tokens(
				  c.dataset, part[i].sequence, part[i].first, 1, &first, &e) == 0);
			CHECK(first == ids[at]);
			at += part[i].count;
		}
	}
	npy_close(&text);
}

/* Counting the first samples agrees with locating each of them, and wraps around at the end. */
static void
check_consumed(const struct blend *b)
{
	int64_t count[64] = { 0 }, out[64], n = blend_count(b), whole[64];

	blend_consumed(b, n, whole);
	for (int64_t i = 0; i < n; i++) {
		int64_t of;
		int k;

		if (i % 37 == 0) {
			blend_consumed(b, i, out);
			CHECK(!memcmp(out, count, (size_t)blend_num_corpora(b) * sizeof *out));
			blend_consumed(b, 2 * n + i, out);
			for (int c = 0; c < blend_num_corpora(b); c++)
				CHECK(out[c] == 2 * whole[c] + count[c]);
		}
		blend_locate(b, i, &k, &of);
		CHECK(of == count[k]);
		count[k]++;
	}
}

/* One split: built and written, then read from the cache and checked, then read unchecked. */
static void
check_split(struct golden *g, const struct corpora *c)
{
	char v[512];

	for (int time = 0; time < 3; time++) {
		struct blend *b;

		g->config.samples.trust_cache = time == 2;
		b = blend_open(c, &g->paths, &g->config, &e);
		CHECK(b != NULL);
		if (!b) {
			fprintf(stderr, "%s %s: %s\n", g->name, split_name[g->config.samples.which],
			    e.msg);
			return;
		}
		CHECK(blend_from_cache(b) == (time > 0));
		CHECK(blend_count(b) == atoll(split_param(g, -1, "length", v)));
		CHECK(
		    (blend_num_stages(b) == 0) == !strcmp(split_param(g, -1, "kind", v), "single"));
		CHECK(blend_notes(b) == NULL);
		if (blend_num_stages(b) > 0) {
			CHECK_STR(blend_hash(b), split_param(g, -1, "blend.hash", v));
			check_file(g, blend_hash(b), "BlendedDataset", ".blend", "description.txt");
			check_file(g, blend_hash(b), "BlendedDataset", "", "dataset_index.npy");
			check_file(
			    g, blend_hash(b), "BlendedDataset", "", "dataset_sample_index.npy");
		}
		check_corpora(g, b);
		check_tokens(g, b);
		check_consumed(b);
		blend_close(b);
	}
	g->config.samples.trust_cache = false;
}

/* Megatron-LM draws more than it has built here; the draws must be those with a larger surplus
 * (case 27), from a corpus whose request is exactly the number drawn. */
static void
check_oversampled(struct golden *g, const struct corpora *c)
{
	struct blend *b = blend_open(c, &g->paths, &g->config, &e);
	struct blend_corpus first;
	struct npy want;

	CHECK(b && blend_count(b) == 16);
	CHECK(
	    npy_open(&want, "cases/27_blend_oversample_surplus/train.dataset_index.npy", &e) == 0);
	for (int64_t i = 0; b && i < 16; i++) {
		int64_t of;
		int k;

		blend_locate(b, i, &k, &of);
		CHECK(k == (int)element(&want, i));
	}
	blend_corpus(b, 0, &first);
	CHECK(first.drawn == 6 && first.num_samples == 6 && samples_count(first.samples) >= 6);
	CHECK_STR(blend_notes(b),
	    "corpora/e_tiny_i32: the train blend draws 6 samples from it, but a request for 4 "
	    "gives only 4: the request is raised to 6\n");
	check_consumed(b);
	npy_close(&want);
	blend_close(b);
}

static void
run_case(const char *name, struct pool *pool)
{
	struct golden g = { .pool = pool };
	struct corpora *c;
	char v[512];

	snprintf(g.name, sizeof g.name, "%s", name);
	read_case(&g);
	c = corpora_open(&g.paths, NULL, pool, &e);
	CHECK(c != NULL);
	for (int i = 0; c && i < SPLIT_COUNT; i++) {
		g.config.samples.which = (enum split)i;
		g.config.samples.num_samples = g.wanted[i];
		g.config.samples.drop_last_partial = i != SPLIT_VALID ||
		    param_int(g.params, "drop_last_partial_validation_sequence");
		if (strstr(name, "oversample_error")) {
			if (i == SPLIT_TRAIN)
				check_oversampled(&g, c);
		} else if (*param(g.params, "expected", v) ||
		    !strcmp(split_param(&g, -1, "length", v), "none")) {
			struct blend *b = blend_open(c, &g.paths, &g.config, &e);

			CHECK(!b || *param(g.params, "expected", v));
			blend_close(b);
		} else {
			check_split(&g, c);
		}
	}
	if (!*param(g.params, "expected", v))
		check_cache_names(g.name, g.cache);
	corpora_close(c);
	data_paths_release(&g.paths);
	io_remove_tree(g.cache, &e);
	free(g.params);
}

static void
test_cases(void)
{
	struct pool *pool = pool_new(3);
	DIR *dir = opendir("cases");
	struct dirent *de;
	int count = 0;

	while (dir && (de = readdir(dir)))
		if (de->d_name[0] != '.')
			run_case(de->d_name, count++ % 2 ? pool : NULL);
	if (dir)
		closedir(dir);
	CHECK(count == 27);
	pool_free(pool);
}

/* Numbers in hexadecimal floats or decimals. */
static int
read_numbers(char *text, double *out)
{
	char *save = NULL;
	int n = 0;

	for (char *p = strtok_r(text, " ", &save); p; p = strtok_r(NULL, " ", &save))
		out[n++] = strtod(p, NULL);
	return n;
}

/* The arrays in separate files. */
static void
check_choice(const char *name, const struct blend_choice *c)
{
	struct npy a, b;
	char path[128];

	snprintf(path, sizeof path, "blending/%s.dataset_index.npy", name);
	if (!io_exists(path))
		return;
	CHECK(npy_open(&a, path, &e) == 0);
	snprintf(path, sizeof path, "blending/%s.dataset_sample_index.npy", name);
	CHECK(npy_open(&b, path, &e) == 0 && a.count == c->size && b.count == c->size);
	CHECK(!memcmp(a.data, c->dataset, (size_t)c->size * 2) &&
	    !memcmp(b.data, c->dataset_sample, (size_t)c->size * 8));
	npy_close(&a);
	npy_close(&b);
}

/* Checks each row against the table's counts. */
static void
test_choice(void)
{
	char *text = read_text("blending/blending.tsv"), *line, *save = NULL;
	int rows = 0;

	strtok_r(text, "\n", &save);
	for (; (line = strtok_r(NULL, "\n", &save)); rows++) {
		char *field[8];
		double w[512], counts[512];
		int64_t limit[512], drawn[512], total = 0;
		struct blend_choice c = { .weight = w, .drawn = drawn };

		for (int i = 0; i < 8; i++)
			field[i] = strsep(&line, "\t");
		c.count = read_numbers(field[4], w);
		c.size = atoll(field[3]);
		CHECK(c.count == atoi(field[2]) && read_numbers(field[7], counts) == c.count);
		if (!strcmp(field[1], "exhaustive")) {
			for (int k = 0; k < c.count; k++)
				total += limit[k] = (int64_t)w[k];
			for (int k = 0; k < c.count; k++)
				w[k] /= (double)total;
			c.limit = limit;
		}
		c.dataset = mem_alloc((size_t)c.size, sizeof *c.dataset);
		c.dataset_sample = mem_alloc((size_t)c.size, sizeof *c.dataset_sample);
		blend_choose(&c);
		for (int k = 0; k < c.count; k++)
			CHECK(drawn[k] == (int64_t)counts[k]);
		check_choice(field[0], &c);
		free(c.dataset);
		free(c.dataset_sample);
		c.dataset = NULL;
		c.dataset_sample = NULL;
		blend_choose(&c);
		for (int k = 0; k < c.count; k++)
			CHECK(drawn[k] == (int64_t)counts[k]);
	}
	CHECK(rows == 9);
	free(text);
}

/* "[[1, 2, 3], [4, 5, 6]]" against the requests of three targets. */
static void
check_requests(const char *text, const double *w, int n, double surplus)
{
	static const int64_t target[3] = { 1000000, 1000, 10 };
	struct json *j = json_parse(text, strlen(text), "sizes", &e);

	for (int k = 0; k < n; k++)
		for (int i = 0; i < 3; i++)
			CHECK(json_root(j)->item[k].item[i].integer ==
			    blend_request(target[i], w[k], surplus));
	json_free(j);
}

static void
test_normalise(void)
{
	char *text = read_text("blending/normalise.tsv"), *line, *save = NULL;
	int rows = 0;

	strtok_r(text, "\n", &save);
	for (; (line = strtok_r(NULL, "\n", &save)); rows++) {
		char *field[9];
		double in[512], once[512], twice[512], w[512];
		int n;

		for (int i = 0; i < 9; i++)
			field[i] = strsep(&line, "\t");
		n = read_numbers(field[2], in);
		CHECK(n == atoi(field[1]) && read_numbers(field[3], once) == n &&
		    read_numbers(field[4], twice) == n);
		blend_normalise(in, n, w);
		CHECK(!memcmp(w, once, (size_t)n * sizeof *w));
		check_requests(field[7], w, n, 0);
		check_requests(field[8], w, n, atof(field[6]));
		blend_normalise(w, n, w);
		CHECK(!memcmp(w, twice, (size_t)n * sizeof *w));
	}
	CHECK(rows == 9);
	free(text);
}

/* A JSON list of strings as words. */
static int
json_words(const struct json *j, const char **word)
{
	const struct json_value *v = json_root(j);

	for (size_t i = 0; i < v->len; i++)
		word[i] = v->item[i].string;
	return (int)v->len;
}

/* Unambiguous lists are read as Megatron-LM reads them; the others are refused. */
static void
test_lists(void)
{
	static const char *const refused[] = {
		"[\"1\", \"p\", \"x\", \"q\"]",
		"[\"1\", \"2\", \"3\"]",
		"[\"nan\", \"p\", \"1\", \"q\"]",
		"[\"inf\", \"p\"]",
	};
	char *text = read_text("blend_list.tsv"), *line, *save = NULL;
	int rows = 0, refusals = 0;

	strtok_r(text, "\n", &save);
	for (; (line = strtok_r(NULL, "\n", &save)); rows++) {
		const char *field[3], *word[8], *want[8];
		struct path_list l;
		struct json *j[3] = { 0 };
		bool bad = false;
		int n;

		for (int i = 0; i < 3; i++)
			field[i] = strsep(&line, "\t");
		for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
			bad = bad || !strcmp(field[0], refused[i]);
		j[0] = json_parse(field[0], strlen(field[0]), "list", &e);
		n = json_words(j[0], word);
		e.msg[0] = '\0';
		CHECK((path_list_parse(n, word, "--data-path", &l, &e) < 0) == bad);
		refusals += bad;
		CHECK(!bad || !strncmp(e.msg, "--data-path: ", 13));
		if (!bad) {
			j[1] = json_parse(field[1], strlen(field[1]), "prefixes", &e);
			j[2] = json_parse(field[2], strlen(field[2]), "weights", &e);
			CHECK(json_words(j[1], want) == l.count &&
			    (json_root(j[2])->type == JSON_NULL) == !l.weight);
			for (int i = 0; i < l.count; i++) {
				CHECK_STR(l.prefix[i], want[i]);
				CHECK(!l.weight ||
				    l.weight[i] == json_number(&json_root(j[2])->item[i]));
			}
		}
		path_list_release(&l);
		for (int i = 0; i < 3; i++)
			json_free(j[i]);
	}
	CHECK(rows == 11 && refusals == 4);
	free(text);
}

static void
expect_refused(int count, const char *const *word, const char *why)
{
	struct path_list l;

	CHECK(path_list_parse(count, word, "--data-path", &l, &e) < 0);
	CHECK_STR(e.msg, why);
	CHECK(l.count == 0 && !l.prefix && !l.weight);
}

static void
test_list_errors(void)
{
	static const char *const odd[] = { "0.3", "a", "0.7" };
	static const char *const mixed[] = { "1", "p", "x", "q" };
	static const char *const zero[] = { "1", "p", "0", "q" };
	static const char *const nan[] = { "nan", "p" };
	static const char *const empty[] = { "a", " " };
	static const char *const numbers[] = { "1", "2" };
	static const char *const ok[] = { "1_0", "p", "1e1", "./2" };
	struct path_list l;

	expect_refused(0, NULL, "--data-path: it names no dataset");
	expect_refused(3, odd,
	    "--data-path: '0.3' is a number where a prefix is expected: a list is PREFIX ... or "
	    "WEIGHT PREFIX ...; write ./0.3 for a dataset of that name");
	expect_refused(4, mixed,
	    "--data-path: 'x' is not a number, but other weights are: either every prefix has a "
	    "weight before it, or none has");
	expect_refused(4, zero,
	    "--data-path: weight 0: must be finite and above 0; leave a corpus out instead");
	expect_refused(2, nan,
	    "--data-path: weight nan: must be finite and above 0; leave a corpus out instead");
	expect_refused(2, empty, "--data-path: an empty word where a prefix is expected");
	expect_refused(2, numbers,
	    "--data-path: '2' is a number where a prefix is expected: a list is PREFIX ... or "
	    "WEIGHT PREFIX ...; write ./2 for a dataset of that name");
	CHECK(path_list_parse(4, ok, "--data-path", &l, &e) == 0 && l.count == 2 &&
	    l.weight[0] == 10 && l.weight[1] == 10);
	CHECK_STR(l.prefix[1], "./2");
	path_list_release(&l);
}

/* Writes a file in dir and returns its path. */
static const char *
put(const char *dir, const char *text, size_t len, char path[256])
{
	snprintf(path, 256, "%s/list", dir);
	CHECK(outfile_write(path, text, len, &e) == 0);
	return path;
}

/* The options: files, per-split files, and which of them may be combined. */
static void
test_path_options(void)
{
	char dir[] = "/tmp/mikoshi-paths-XXXXXX", path[256], want[400];
	static const char *words[] = { "a" };
	struct path_options o = { 0 };
	struct data_paths p;
	static const struct {
		const char *json, *why;
	} bad[] = {
		{ "[]", "must be an object of train, valid and test" },
		{ "{\"train\": [\"a\"], \"valid\": null}",
		    "test: missing: train, valid and test must all be given, null for none" },
		{ "{\"train\": [\"a\"], \"valid\": 3, \"test\": null}",
		    "valid: must be a list or a string of words" },
		{ "{\"train\": [[\"a\"]], \"valid\": null, \"test\": null}",
		    "train: element 0 is neither a string nor a number" },
		{ "{\"train\": [], \"valid\": null, \"test\": null}",
		    "train: it names no dataset" },
	};

	CHECK(mkdtemp(dir) != NULL);
	CHECK(data_paths_read(&o, &p, &e) < 0);
	CHECK_STR(e.msg,
	    "no data: one of --data-path, --data-args-path, --data-schedule, --train-data-path and "
	    "--per-split-data-args-path is needed");
	o.data_args_path = put(dir, "0.3 a\n\t0.7 b\r\n", 14, path);
	CHECK(data_paths_read(&o, &p, &e) == 0 && !p.per_split && p.list[0].count == 2 &&
	    p.list[0].weight[1] == 0.7);
	CHECK(data_paths_list(&p, SPLIT_TEST) == &p.list[0]);
	data_paths_release(&p);
	put(dir, "a\0b", 3, path);
	CHECK(data_paths_read(&o, &p, &e) < 0 && strstr(e.msg, "list: not a text: byte 1 is NUL"));
	o.data_path = (struct opt_list){ 1, words };
	CHECK(
	    data_paths_read(&o, &p, &e) < 0 && strstr(e.msg, "only one of them can name the data"));
	o.data_args_path = NULL;
	CHECK(data_paths_read(&o, &p, &e) == 0 && p.list[0].count == 1 && !p.list[0].weight);
	data_paths_release(&p);
	o.data_path.count = 0;
	o.split_path[SPLIT_VALID] = (struct opt_list){ 1, words };
	CHECK(data_paths_read(&o, &p, &e) == 0 && p.per_split && p.list[0].count == 0 &&
	    p.list[1].count == 1);
	CHECK(data_paths_list(&p, SPLIT_VALID) == &p.list[1]);
	data_paths_release(&p);
	o.split_path[SPLIT_VALID].count = 0;
	o.per_split_data_args_path = put(dir,
	    "{\"train\": [0.25, \"a\", \"3\", \"b\"], \"valid\": \"1 c 2 d\", \"test\": null}", 66,
	    path);
	CHECK(data_paths_read(&o, &p, &e) == 0 && p.per_split && p.list[0].weight[0] == 0.25 &&
	    p.list[0].weight[1] == 3);
	CHECK(p.list[1].count == 2 && p.list[2].count == 0);
	data_paths_release(&p);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		put(dir, bad[i].json, strlen(bad[i].json), path);
		CHECK(data_paths_read(&o, &p, &e) < 0);
		snprintf(want, sizeof want, "%s: %s", path, bad[i].why);
		CHECK_STR(e.msg, want);
	}
	io_remove_tree(dir, &e);
}

/* Every rank's batches of one row, from a consumed count to the end of the epoch, or of the split.
 */
static void
check_batches(struct sampler *s, const struct sampler_config *c, int64_t consumed, int64_t rank,
    const char *text)
{
	struct json *j = json_parse(text, strlen(text), "batches", &e);
	const struct json_value *v = json_root(j);
	int64_t group = c->micro_batch_size * c->data_parallel_size, out[64];
	size_t left = (size_t)((sampler_active(s) - consumed % sampler_active(s)) / group);

	/* Some of Megatron-LM's ranks get one more batch at the end of an epoch that is not
	 * sharded. */
	if (c->type == SAMPLER_CYCLIC)
		CHECK(v->len == left || (c->no_data_sharding && v->len == left + 1));
	for (size_t b = 0; b < v->len && (b < left || c->type == SAMPLER_SINGLE); b++) {
		CHECK(sampler_batch(s, consumed + (int64_t)b * group, rank, out, &e) == 0);
		for (int64_t i = 0; i < c->micro_batch_size; i++)
			CHECK(out[i] == v->item[b].item[i].integer);
	}
	json_free(j);
}

static void
test_samplers(enum sampler_type type, const char *path, int want)
{
	char *text = read_text(path), *line, *save = NULL;
	int rows = 0;

	strtok_r(text, "\n", &save);
	for (; (line = strtok_r(NULL, "\n", &save)); rows++) {
		bool cyclic = type == SAMPLER_CYCLIC;
		char *field[7] = { 0 };
		struct sampler_config c = { .type = type };
		struct sampler *s;

		for (int i = 0; i < 7; i++)
			field[i] = strsep(&line, "\t");
		c.total = atoll(field[0]);
		c.micro_batch_size = atoll(field[2]);
		c.data_parallel_size = atoll(field[3]);
		c.no_data_sharding = cyclic && *field[4] == '0';
		s = sampler_new(&c, &e);
		CHECK(s || (!cyclic && !strcmp(field[5], "[]")));
		if (s) {
			int64_t consumed = atoll(field[1]), rank = atoll(field[cyclic ? 5 : 4]),
				out[64];
			int64_t group = c.micro_batch_size * c.data_parallel_size;

			check_batches(s, &c, consumed, rank, field[cyclic ? 6 : 5]);
			if (!cyclic) { /* the number of batches, and an end after the last */
				int64_t batches = atoll(field[6]);

				CHECK(batches == 0 ||
				    sampler_batch(
					s, consumed + (batches - 1) * group, rank, out, &e) == 0);
				CHECK(sampler_batch(s, consumed + batches * group, rank, out, &e) <
				    0);
			}
		}
		sampler_free(s);
	}
	CHECK(rows == want);
	free(text);
}

static void
test_randperm(void)
{
	char *text = read_text("samplers/torch_randperm.tsv"), *line, *save = NULL;

	strtok_r(text, "\n", &save);
	while ((line = strtok_r(NULL, "\n", &save))) {
		uint64_t seed = strtoull(strsep(&line, "\t"), NULL, 10);
		int64_t n = atoll(strsep(&line, "\t"));
		uint32_t *out = mem_alloc((size_t)n, sizeof *out);
		char *p = strsep(&line, "\t");

		sampler_randperm(seed, n, out);
		for (int64_t i = 0; i < n && i < 64; i++)
			CHECK(out[i] == strtoul(p, &p, 10));
		free(out);
	}
	free(text);
}

static void
test_sampler_errors(void)
{
	struct sampler_config c = { .total = 7, .micro_batch_size = 2, .data_parallel_size = 4 };
	struct sampler *s;
	int64_t out[2];

	CHECK(!sampler_new(&c, &e));
	CHECK_STR(e.msg, "7 samples are fewer than one micro batch of 2 on each of 4 data ranks");
	c.micro_batch_size = 0;
	CHECK(!sampler_new(&c, &e));
	CHECK_STR(e.msg, "micro batches of 0 on 4 data ranks: both must be at least 1");
	c = (struct sampler_config){ .type = SAMPLER_CYCLIC,
		.total = 1LL << 31,
		.micro_batch_size = 1,
		.data_parallel_size = 8 };
	CHECK(!sampler_new(&c, &e));
	CHECK_STR(e.msg,
	    "the cyclic loader permutes 268435456 samples: at most 214748363; the single loader "
	    "has no limit");
	c.total = 64;
	s = sampler_new(&c, &e);
	CHECK(s && sampler_active(s) == 64 && sampler_batch(s, 12, 0, out, &e) < 0);
	CHECK_STR(e.msg,
	    "12 samples consumed: the cyclic loader continues only at multiples of 8, the micro "
	    "batches of all data ranks");
	sampler_free(s);
}

/* Lists that are not a blend, with the reason. */
static void
test_blend_errors(void)
{
	static const char *const words[] = { "0.5", "corpora/a_u16", "0.5", "corpora/e_tiny_i32" },
				 *const plain[] = { "corpora/a_u16", "corpora/e_tiny_i32" },
				 *const gone[] = { "corpora/gone", "corpora/lost" };
	struct data_paths p = { 0 };
	struct blend_config c = { .samples = { .split = "1",
				      .num_samples = -1,
				      .seq_length = 8,
				      .add_extra_token = true,
				      .drop_last_partial = true },
		.surplus = BLEND_SURPLUS };
	struct pool *pool = pool_new(2);
	struct corpora *all;
	struct blend *b;

	CHECK(path_list_parse(2, gone, "--data-path", &p.list[0], &e) == 0);
	for (int i = 0; i < 5; i++) {
		CHECK(!corpora_open(&p, NULL, pool, &e));
		CHECK_STR(e.msg, "cannot open 'corpora/gone.idx': No such file or directory");
	}
	path_list_release(&p.list[0]);
	CHECK(path_list_parse(4, words, "--data-path", &p.list[0], &e) == 0);
	all = corpora_open(&p, NULL, pool, &e);
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(e.msg,
	    "the train split has weights but no number of samples: weights need one; a list "
	    "without weights takes every sample once");
	c.samples.num_samples = 0;
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(e.msg, "0 samples wanted of the train split: must be at least 1 for a blend");
	c.samples.num_samples = 1LL << 51;
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(
	    e.msg, "2251799813685248 samples wanted of the train split: at most 1125899906842624");
	c.samples.num_samples = 10;
	c.samples.split = "969,30,1";
	c.samples.which = SPLIT_TEST;
	c.pool = pool;
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(e.msg,
	    "corpora/a_u16: the test split has 0 tokens: --split '969,30,1' gives it the share "
	    "0.001 of 60 sequences, which is "
	    "0; at least 2 tokens are needed: --split 58,1,1 gives some to every split");
	p.per_split = true;
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(e.msg, "the test split has no corpora");
	p.per_split = false;
	path_list_release(&p.list[0]);
	/* Without weights: a corpus shorter than a sample, and a request for more samples than
	 * exist. */
	CHECK(path_list_parse(2, plain, "--data-path", &p.list[0], &e) == 0);
	c.samples.which = SPLIT_TRAIN;
	c.samples.split = "1";
	c.samples.seq_length = 64;
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(e.msg,
	    "corpora/e_tiny_i32: 37 tokens in the train split: a blend needs at least one sample, "
	    "which is 65 tokens");
	c.samples.seq_length = 8;
	c.samples.num_samples = 10000;
	b = blend_open(all, &p, &c, &e);
	CHECK(b && blend_count(b) == 159 + 4 && blend_notes(b) &&
	    strstr(blend_notes(b), "the train split has 163 samples, fewer than the 10000 wanted"));
	blend_close(b);
	corpora_close(all);
	path_list_release(&p.list[0]);
	pool_free(pool);
}

/* More corpora than 16 bits can number. */
static void
test_many_corpora(void)
{
	enum { COUNT = BLEND_CORPORA_MAX + 1 };
	const char **word = mem_alloc(COUNT, sizeof *word);
	struct data_paths p = { 0 };
	struct blend_config c = { .samples = { .split = "1", .num_samples = 10, .seq_length = 8 } };
	struct corpora *all;

	for (int i = 0; i < COUNT; i++)
		word[i] = "corpora/a_u16";
	CHECK(path_list_parse(COUNT, word, "--data-path", &p.list[0], &e) == 0);
	all = corpora_open(&p, NULL, NULL, &e);
	CHECK(all && corpora_count(all) == 1);
	CHECK(!blend_open(all, &p, &c, &e));
	CHECK_STR(e.msg,
	    "32768 corpora in one list: at most 32767, as the blending index numbers "
	    "them with 16 bits");
	corpora_close(all);
	path_list_release(&p.list[0]);
	free(word);
}

/* Changes one byte of a file of the cache. */
static void
poke(const char *dir, const char *suffix, long offset)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	char path[1024];
	FILE *f;
	int c;

	while (d && (de = readdir(d)))
		if (strstr(de->d_name, suffix))
			snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
	closedir(d);
	f = fopen(path, "rb+");
	CHECK(f && fseek(f, offset, SEEK_SET) == 0 && (c = fgetc(f)) != EOF &&
	    fseek(f, offset, SEEK_SET) == 0 && fputc(c ^ 1, f) != EOF);
	if (f)
		fclose(f);
}

/* A damaged blending index is detected, with and without its key, and rewritten. */
static void
test_blend_cache(void)
{
	static const char *const words[] = { "3", "corpora/b_i32", "1", "corpora/f_u16edge" };
	char dir[] = "/tmp/mikoshi-blend-XXXXXX";
	struct data_paths p = { 0 };
	struct blend_config c = { .samples = { .split = "1",
				      .num_samples = 500,
				      .seq_length = 8,
				      .add_extra_token = true,
				      .drop_last_partial = true,
				      .cache_dir = dir,
				      .write_cache = true },
		.surplus = BLEND_SURPLUS };
	struct corpora *all;

	CHECK(mkdtemp(dir) && path_list_parse(4, words, "--data-path", &p.list[0], &e) == 0);
	all = corpora_open(&p, NULL, NULL, &e);
	for (int time = 0; time < 6; time++) {
		struct blend *b = blend_open(all, &p, &c, &e);
		bool damaged = time == 2 || time == 4;

		CHECK(b && blend_from_cache(b) == (time != 0 && !damaged) && blend_count(b) == 500);
		CHECK(!blend_notes(b) == !damaged &&
		    (!damaged || strstr(blend_notes(b), "is damaged: it was rebuilt\n")));
		check_consumed(b);
		blend_close(b);
		if (time == 1)
			poke(dir, "-dataset_index.npy", 300);
		if (time == 3) {
			CHECK(remove_keys(dir) > 0);
			poke(dir, "-dataset_sample_index.npy", 300);
		}
		if (time == 4)
			CHECK(remove_keys(dir) > 0);
	}
	corpora_close(all);
	path_list_release(&p.list[0]);
	io_remove_tree(dir, &e);
}

int
main(void)
{
	if (chdir("tests/golden/data") < 0) {
		perror("tests/golden/data");
		return 1;
	}
	test_cases();
	test_choice();
	test_normalise();
	test_lists();
	test_list_errors();
	test_path_options();
	test_samplers(SAMPLER_SINGLE, "samplers/single.tsv", 25);
	test_samplers(SAMPLER_CYCLIC, "samplers/cyclic.tsv", 24);
	test_randperm();
	test_sampler_errors();
	test_blend_errors();
	test_many_corpora();
	test_blend_cache();
	return check_done();
}
