/* samples.c - index maps, samples and splits against the outputs of Megatron-LM in
 * tests/golden/data */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/format/npy.h"
#include "lib/format/samples.h"
#include "tests/check.h"

#include <dirent.h>
#include <unistd.h>

static struct err e;

/* One case: its parameters and the directory that its maps are written to. */
struct golden {
	char name[256], cache[64];
	char *params;
	const struct dataset *d;
	int64_t seq_length;
	struct samples_config config;
	char split[64], tokenizer[256];
};

/* The value of a key in text of "key TAB value" lines; "" when it is not there. */
static const char *
param(const char *text, const char *key, char out[512])
{
	size_t n = strlen(key);

	out[0] = '\0';
	for (const char *p = text; *p; p += strcspn(p, "\n") + 1) {
		if (!strncmp(p, key, n) && p[n] == '\t')
			snprintf(out, 512, "%.*s", (int)strcspn(p + n + 1, "\n"), p + n + 1);
		if (!p[strcspn(p, "\n")])
			break;
	}
	return out;
}

static int64_t
param_int(const struct golden *g, const char *key)
{
	char v[512];

	return strtoll(param(g->params, key, v), NULL, 10);
}

/* "train.length" and the like. */
static int64_t
split_int(const struct golden *g, const char *key)
{
	char name[64];

	snprintf(name, sizeof name, "%s.%s", split_name[g->config.which], key);
	return param_int(g, name);
}

static char *
read_text(const char *path)
{
	char *text;

	if (io_read_file(path, 0, &text, NULL, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	return text;
}

static void
check_same_file(const char *a, const char *b)
{
	char *x = NULL, *y = NULL;
	size_t n = 0, m = 0;

	CHECK(io_read_file(a, 0, &x, &n, &e) == 0);
	CHECK(io_read_file(b, 0, &y, &m, &e) == 0);
	CHECK(n == m && x && y && !memcmp(x, y, n));
	free(x);
	free(y);
}

/* Element i of a golden array. */
static double
element(const struct npy *a, int64_t i)
{
	switch (a->dtype) {
	case DTYPE_I32:
		return ((const int32_t *)a->data)[i];
	case DTYPE_U32:
		return ((const uint32_t *)a->data)[i];
	case DTYPE_U8:
		return ((const uint8_t *)a->data)[i];
	default:
		CHECK(!"golden array of an expected type");
		return 0;
	}
}

static void
open_golden(const struct golden *g, const char *what, struct npy *a)
{
	char path[512];

	snprintf(
	    path, sizeof path, "cases/%s/%s.%s.npy", g->name, split_name[g->config.which], what);
	if (npy_open(a, path, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
}

static void
check_maps(const struct golden *g, const struct samples *s)
{
	struct npy doc, row, shuffle;
	bool same = true;

	open_golden(g, "document_index", &doc);
	open_golden(g, "sample_index", &row);
	open_golden(g, "shuffle_index", &shuffle);
	CHECK(doc.count == samples_document_index_length(s) && shuffle.count == samples_count(s));
	CHECK(row.ndim == 2 && row.shape[0] == samples_count(s) + 1);
	for (int64_t i = 0; i < doc.count; i++)
		same = same && (double)samples_document_index(s, i) == element(&doc, i);
	for (int64_t i = 0; i < row.shape[0]; i++) {
		int64_t position, offset;

		samples_sample_index(s, i, &position, &offset);
		same = same && (double)position == element(&row, 2 * i) &&
		    (double)offset == element(&row, 2 * i + 1);
	}
	for (int64_t i = 0; i < shuffle.count; i++)
		same = same && (double)samples_shuffle_index(s, i) == element(&shuffle, i);
	CHECK(same);
	npy_close(&doc);
	npy_close(&row);
	npy_close(&shuffle);
}

/* The files of the cache have Megatron-LM's names and bytes. */
static void
check_files(const struct golden *g, const struct samples *s)
{
	static const char *const name[] = { "description.txt", "document_index.npy",
		"sample_index.npy", "shuffle_index.npy" };
	char have[512], want[512];

	for (int i = 0; i < 4; i++) {
		const char *split = split_name[g->config.which];

		snprintf(have, sizeof have, "%s/%s-GPTDataset-%s-%s", g->cache, samples_hash(s),
		    split, name[i]);
		snprintf(want, sizeof want, "cases/%s/%s.%s", g->name, split, name[i]);
		check_same_file(have, want);
	}
}

/* The parts of a sample are its tokens. */
static void
check_parts(const struct golden *g, const struct samples *s, int64_t sample, const int64_t *tokens,
    int64_t count)
{
	struct sample_part part[2048];
	int64_t n = samples_parts(s, sample, part, 2048), at = 0, one[2048];

	for (int64_t i = 0; i < n; i++) {
		CHECK(part[i].count > 0 && at + part[i].count <= count);
		CHECK(dataset_tokens(g->d, part[i].sequence, part[i].first, part[i].count, one, &e) == 0);
		CHECK(!memcmp(one, tokens + at, (size_t)part[i].count * sizeof *one));
		at += part[i].count;
	}
	CHECK(at == count && samples_parts(s, sample, NULL, 0) == n);
}

/* Raw tokens and assembled sample of one row of the golden arrays: text, tokens, labels, loss_mask,
 * position_ids. */
static void
check_row(const struct golden *g, const struct samples *s, const struct sample_options *o,
    const struct npy a[5], int64_t row)
{
	enum { MAX = 1025 };
	int64_t tokens[MAX], width = a[0].shape[1], sample = (int64_t)element(&a[0], row * width),
			     n;
	int32_t in[MAX], labels[MAX], position[MAX];
	float mask[MAX];
	struct sample out = {
		.tokens = in, .labels = labels, .position_ids = position, .loss_mask = mask
	};
	bool same = true;

	n = samples_tokens(s, sample, tokens, &e);
	check_parts(g, s, sample, tokens, n);
	for (int64_t i = 0; i + 1 < width; i++)
		same =
		    same && (i < n ? (double)tokens[i] : -1) == element(&a[0], row * width + i + 1);
	CHECK(same);
	if (!a[1].data)
		return;
	sample_assemble(o, tokens, n, g->seq_length, &out);
	for (int64_t i = 0; i < g->seq_length; i++) {
		int64_t k = row * g->seq_length + i;

		same = same && element(&a[1], k) == in[i] && element(&a[2], k) == labels[i] &&
		    element(&a[3], k) == (double)mask[i] &&
		    element(&a[4], k) == position[i];
	}
	CHECK(same);
}

static void
check_samples(const struct golden *g, const struct samples *s)
{
	static const char *const what[] = { "text", "tokens", "labels", "loss_mask",
		"position_ids" };
	struct npy a[5] = { 0 };
	char pad[512], path[512];
	struct sample_options o = {
		.eod = param_int(g, "eod_id"),
		.add_extra_token = g->config.add_extra_token,
		.eod_mask_loss = param_int(g, "eod_mask_loss"),
		.reset_position_ids = param_int(g, "reset_position_ids"),
	};

	/* A pad id that is also the end of document is ambiguous and counts as none. */
	o.pad = *param(g->params, "pad_id", pad) == 'n' ? -1 : atoi(pad);
	if (o.pad == o.eod)
		o.pad = -1;
	if (samples_count(s) == 0)
		return;
	/* Some cases have the raw tokens alone. */
	snprintf(path, sizeof path, "cases/%s/%s.tokens.npy", g->name, split_name[g->config.which]);
	for (int i = 0; i < (io_exists(path) ? 5 : 1); i++)
		open_golden(g, what[i], &a[i]);
	CHECK(a[0].shape[1] == g->seq_length + 1 + g->config.add_extra_token && a[0].shape[0] > 0);
	for (int64_t row = 0; row < a[0].shape[0]; row++)
		check_row(g, s, &o, a, row);
	for (int i = 0; i < 5; i++)
		npy_close(&a[i]);
}

/* One split of one case: built and written, then read back. */
static void
check_split(struct golden *g)
{
	struct samples *s = samples_open(g->d, &g->config, &e), *again;
	char key[64], hash[512];

	CHECK(s != NULL);
	if (!s) {
		fprintf(stderr, "%s %s: %s\n", g->name, split_name[g->config.which], e.msg);
		return;
	}
	snprintf(key, sizeof key, "%s.hash", split_name[g->config.which]);
	CHECK_STR(samples_hash(s), param(g->params, key, hash));
	CHECK(samples_count(s) == split_int(g, "length"));
	CHECK(samples_tokens_per_epoch(s) == split_int(g, "tokens_per_epoch"));
	CHECK(samples_num_epochs(s) == split_int(g, "num_epochs"));
	CHECK(samples_separate_final_epoch(s) == split_int(g, "separate_final_epoch"));
	CHECK(!samples_from_cache(s));
	check_maps(g, s);
	check_files(g, s);
	check_samples(g, s);
	again = samples_open(g->d, &g->config, &e);
	CHECK(again && samples_from_cache(again));
	if (again) {
		check_maps(g, again);
		check_samples(g, again);
	}
	samples_close(again);
	samples_close(s);
}

/* The cache holds the files that Megatron-LM wrote and no others. */
static void
check_names(const struct golden *g)
{
	char *list = read_text("cache_files.tsv"), path[600];
	int want = 0, have = 0;
	DIR *dir = opendir(g->cache);
	struct dirent *de;

	for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n")) {
		char *tab = strchr(line, '\t');

		*tab = '\0';
		if (strcmp(line, g->name) != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", g->cache, tab + 1);
		CHECK(io_exists(path));
		want++;
	}
	while (dir && (de = readdir(dir)))
		have += de->d_name[0] != '.';
	if (dir)
		closedir(dir);
	CHECK(want == have);
	free(list);
}

/* Fills the parts of the configuration that all splits share. */
static void
read_case(struct golden *g)
{
	char path[512], v[512], vocab[600], eod[600], pad[600];
	const char *option[3] = { vocab, eod, pad };
	struct str tokenizer = { 0 };

	snprintf(path, sizeof path, "cases/%s/params.tsv", g->name);
	g->params = read_text(path);
	g->seq_length = param_int(g, "sequence_length");
	snprintf(g->split, sizeof g->split, "%.60s", param(g->params, "split", v));
	snprintf(vocab, sizeof vocab, "vocab_size=%s", param(g->params, "vocab_size", v));
	snprintf(eod, sizeof eod, "eod_id=%s", param(g->params, "eod_id", v));
	snprintf(pad, sizeof pad, "pad_id=%s", param(g->params, "pad_id", v));
	samples_tokenizer(NULL, NULL, option, *v == 'n' ? 2 : 3, &tokenizer);
	snprintf(g->tokenizer, sizeof g->tokenizer, "%s", tokenizer.buf);
	str_release(&tokenizer);
	strcpy(g->cache, "/tmp/mikoshi-samples-XXXXXX");
	CHECK(mkdtemp(g->cache) != NULL);
	g->config = (struct samples_config){
		.split = g->split,
		.seq_length = g->seq_length,
		.seed = param_int(g, "seed"),
		.add_extra_token = param_int(g, "add_extra_token_to_sequence"),
		.tokenizer_json = g->tokenizer,
		.cache_dir = g->cache,
		.write_cache = true,
	};
}

/* Runs one case; one that must fail does so with words for it. */
static void
run_case(const char *name)
{
	struct golden g = { 0 };
	char v[512], prefix[512];
	struct json *blend, *wanted;
	bool fails, failed = false;

	snprintf(g.name, sizeof g.name, "%s", name);
	read_case(&g);
	param(g.params, "blend", v);
	blend = json_parse(v, strlen(v), "blend", &e);
	snprintf(prefix, sizeof prefix, "%s", json_root(blend)->item[0].item[0].string);
	json_free(blend);
	param(g.params, "num_samples_train_valid_test", v);
	wanted = json_parse(v, strlen(v), "num_samples", &e);
	fails = *param(g.params, "expected", v);
	g.d = dataset_open(prefix, &e);
	CHECK(g.d != NULL);
	for (int i = 0; g.d && i < SPLIT_COUNT; i++) {
		const struct json_value *n = &json_root(wanted)->item[i];
		char key[64];

		g.config.which = (enum split)i;
		g.config.num_samples = n->type == JSON_NULL ? -1 : n->integer;
		g.config.drop_last_partial =
		    i != SPLIT_VALID || param_int(&g, "drop_last_partial_validation_sequence");
		snprintf(key, sizeof key, "%s.length", split_name[i]);
		if (fails || !strcmp(param(g.params, key, v), "none")) {
			struct samples *s = samples_open(g.d, &g.config, &e);

			failed = failed || !s;
			CHECK(fails || !s);
			samples_close(s);
		} else {
			check_split(&g);
		}
	}
	if (fails) {
		CHECK(failed);
		CHECK_STR(e.msg,
		    "corpora/a_u16: the test split has 0 tokens: --split '969,30,1' gives it the "
		    "share 0.001 of 60 sequences, "
		    "which is 0; at least 2 tokens are needed");
	} else {
		check_names(&g);
	}
	io_remove_tree(g.cache, &e);
	json_free(wanted);
	dataset_close((struct dataset *)(uintptr_t)g.d);
	free(g.params);
}

static void
test_cases(void)
{
	DIR *dir = opendir("cases");
	struct dirent *de;
	int count = 0;

	while (dir && (de = readdir(dir)))
		if (de->d_name[0] != '.') {
			run_case(de->d_name);
			count++;
		}
	if (dir)
		closedir(dir);
	CHECK(count == 19);
}

/* "beg-end,beg-end,none" of one N. */
static void
check_ranges(const struct split_matrix *m, char *text)
{
	char *colon = strchr(text, ':'), *p = colon + 1;
	int64_t n = atoll(text);

	for (int i = 0; i < SPLIT_COUNT; i++) {
		int64_t begin, end;

		split_range(m, (enum split)i, n, &begin, &end);
		if (!strncmp(p, "none", 4)) {
			CHECK(!m->present[i] && begin == end);
			p += 4 + (p[4] == ',');
			continue;
		}
		CHECK(m->present[i] && begin == strtoll(p, &p, 10));
		CHECK(*p == '-' && end == strtoll(p + 1, &p, 10));
		p += *p == ',';
	}
}

/* The bookends as JSON: [[0, 0.5], null, [0.5, 1.0]]. */
static void
check_matrix(const struct split_matrix *m, const char *text)
{
	struct json *j = json_parse(text, strlen(text), "matrix", &e);

	for (int i = 0; j && i < SPLIT_COUNT; i++) {
		const struct json_value *v = &json_root(j)->item[i];

		CHECK(m->present[i] == (v->type == JSON_ARRAY));
		if (v->type == JSON_ARRAY)
			CHECK(m->begin[i] == v->item[0].number && m->end[i] == v->item[1].number);
	}
	CHECK(j != NULL);
	json_free(j);
}

static void
test_split(void)
{
	char *text = read_text("split.tsv"), *line = strchr(text, '\n') + 1, *next;
	int rows = 0;

	for (; *line; line = next, rows++) {
		char *field[5], *save = NULL;
		struct split_matrix m;
		int n = 0;

		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		for (char *p = line; p && n < 5; n++)
			field[n] = strsep(&p, "\t");
		if (strcmp(field[1], "ok") != 0) {
			e.msg[0] = '\0';
			CHECK(split_parse(field[0], &m, &e) < 0 && !strncmp(e.msg, "--split '", 9));
			continue;
		}
		CHECK(split_parse(field[0], &m, &e) == 0 && n == 5);
		check_matrix(&m, field[3]);
		for (char *p = strtok_r(field[4], " ", &save); p; p = strtok_r(NULL, " ", &save))
			check_ranges(&m, p);
	}
	CHECK(rows == 24);
	free(text);
}

/* 0..n-1 shuffled; free() it. */
static int64_t *
shuffled(struct mt19937 *rng, int64_t n)
{
	int64_t *a = mem_alloc((size_t)n, sizeof *a);

	for (int64_t i = 0; i < n; i++)
		a[i] = i;
	for (int64_t i = n - 1; i > 0; i--) {
		int64_t j = (int64_t)mt19937_interval(rng, (uint64_t)i), t = a[i];

		a[i] = a[j];
		a[j] = t;
	}
	return a;
}

/* Raw outputs and shuffles of the generator: the values listed, and the raw output that follows. */
static void
test_generator(void)
{
	char *text = read_text("mt19937/shuffle.tsv"), *line, *save = NULL;
	int rows = 0;

	strtok_r(text, "\n", &save);
	while ((line = strtok_r(NULL, "\n", &save))) {
		char *field[7], *p;
		struct mt19937 rng;
		int64_t n, *a;

		for (int i = 0; i < 7; i++)
			field[i] = strsep(&line, "\t");
		n = atoll(field[2]);
		mt19937_seed(&rng, (uint32_t)strtoul(field[0], NULL, 10));
		a = shuffled(&rng, n);
		p = field[3];
		for (int64_t i = 0; i < (n <= 1000 ? n : 32); i++)
			CHECK(a[i] == strtoll(p, &p, 10));
		CHECK(mt19937_next(&rng) == strtoul(field[6], NULL, 10));
		free(a);
		rows++;
	}
	CHECK(rows == 54);
	free(text);
}

/* Two shuffles from one generator: the second goes on where the first stopped. */
static void
test_consecutive(void)
{
	char *text = read_text("mt19937/consecutive.tsv"), *line, *save = NULL;
	int rows = 0;

	strtok_r(text, "\n", &save);
	for (; (line = strtok_r(NULL, "\n", &save)); rows++) {
		struct mt19937 rng;
		char *field[5];

		for (int i = 0; i < 5; i++)
			field[i] = strsep(&line, "\t");
		mt19937_seed(&rng, (uint32_t)strtoul(field[0], NULL, 10));
		for (int k = 1; k <= 2; k++) {
			int64_t n = atoll(field[k]), *a = shuffled(&rng, n);
			char *p = field[k + 2];

			for (int64_t i = 0; i < n && i < 20; i++)
				CHECK(a[i] == strtoll(p, &p, 10));
			free(a);
		}
	}
	CHECK(rows > 0);
	free(text);
}

/* Outputs straight from the generator, before and after a refill. */
static void
test_raw(void)
{
	char *text = read_text("mt19937/raw.tsv"), *line, *save = NULL;

	strtok_r(text, "\n", &save);
	while ((line = strtok_r(NULL, "\n", &save))) {
		char *first, *later;
		struct mt19937 rng;

		mt19937_seed(&rng, (uint32_t)strtoul(strsep(&line, "\t"), NULL, 10));
		first = strsep(&line, "\t");
		later = strsep(&line, "\t");
		for (int i = 0; i < 632; i++) {
			uint32_t v = mt19937_next(&rng);

			if (i < 20)
				CHECK(v == strtoul(first, &first, 10));
			if (i >= 624)
				CHECK(v == strtoul(later, &later, 10));
		}
	}
	free(text);
}

/* Overwrites one byte of a file. */
static void
poke(const char *path, long offset, int value)
{
	FILE *f = fopen(path, "rb+");

	CHECK(f && fseek(f, offset, SEEK_SET) == 0 && fputc(value, f) != EOF);
	if (f)
		fclose(f);
}

/* Opens with c; the maps must be those of `want` and come from the cache or not. */
static void
expect_maps(const struct dataset *d, const struct samples_config *c, const struct samples *want,
    bool from_cache)
{
	struct samples *s = samples_open(d, c, &e);

	CHECK(s && samples_from_cache(s) == from_cache);
	for (int64_t i = 0; s && i < samples_count(want); i++)
		CHECK(samples_shuffle_index(s, i) == samples_shuffle_index(want, i));
	for (int64_t i = 0; s && i < samples_document_index_length(want); i++)
		CHECK(samples_document_index(s, i) == samples_document_index(want, i));
	samples_close(s);
}

/* Damaged, stale and incomplete caches are not used; they are rebuilt when writing is allowed. */
static void
test_cache(void)
{
	static const struct {
		const char *name;
		long offset;
		int value;
	} damage[] = {
		{ "document_index.npy", 131, 0x7f }, { "document_index.npy", 128, 59 }, { "sample_index.npy", 136, 0xff },
		{ "sample_index.npy", 140, 0xff }, { "shuffle_index.npy", 129, 0xff }, { "shuffle_index.npy", 3, 'x' },
		{ "description.txt", 5, 'x' },
	};
	char dir[] = "/tmp/mikoshi-cache-XXXXXX", path[512];
	struct dataset *d = dataset_open("corpora/a_u16", &e);
	struct samples_config c = {
		.split = "9,1",
		.num_samples = 300,
		.seq_length = 8,
		.seed = 7,
		.add_extra_token = true,
		.drop_last_partial = true,
	};
	struct samples *want;

	CHECK(d && mkdtemp(dir));
	c.cache_dir = dir;
	want = samples_open(d, &c, &e);
	CHECK(want && !samples_from_cache(want));
	expect_maps(d, &c, want, false);
	c.write_cache = true;
	expect_maps(d, &c, want, false);
	for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
		snprintf(path, sizeof path, "%s/%s-GPTDataset-train-%s", dir, samples_hash(want),
		    damage[i].name);
		poke(path, damage[i].offset, damage[i].value);
		c.write_cache = false;
		expect_maps(d, &c, want, false);
		c.write_cache = true;
		expect_maps(d, &c, want, false);
		expect_maps(d, &c, want, true);
	}
	CHECK(truncate(path, 100) == 0);
	expect_maps(d, &c, want, false);
	samples_close(want);
	c.add_extra_token = false;              /* the same name, other maps */
	want = samples_open(d, &c, &e);
	CHECK(want && !samples_from_cache(want));
	samples_close(want);
	c.cache_dir = "corpora/a_u16.idx";
	CHECK(!samples_open(d, &c, &e));
	CHECK_STR(e.msg, "cannot create directory 'corpora/a_u16.idx': a file of that name exists");
	io_remove_tree(dir, &e);
	dataset_close(d);
}

/* The rules of the description's text that no golden case reaches. */
static void
test_description(void)
{
	static const char *const option[] = { "a=1e-05", "b", "c=x\"\\\n\x01" };
	struct dataset *d = dataset_open("corpora/a_u16", &e);
	struct samples_config c = { .split = "0.00001,1", .num_samples = -1, .seq_length = 8 };
	struct str s = { 0 };

	samples_tokenizer("T\xc3\xa9\xf0\x9f\x98\x80\xff", "m.model", option, 3, &s);
	CHECK_STR(s.buf,
	    "{\n        \"class\": \"T\\u00e9\\ud83d\\ude00\\udcff\",\n        \"tokenizer_path\": "
	    "\"m.model\",\n"
	    "        \"a\": \"1e-05\",\n        \"b\": \"None\",\n        \"c\": "
	    "\"x\\\"\\\\\\n\\u0001\"\n    }");
	str_clear(&s);
	samples_description(d, &c, &s);
	CHECK(strstr(s.buf, "\"num_samples\": null,") &&
	    strstr(s.buf, "            0,\n            9.99990000099999e-06\n"));
	str_clear(&s);
	c.split = NULL;
	samples_description(d, &c, &s);
	CHECK(strstr(s.buf, "\"split\": null,\n    \"split_matrix\": null,\n") &&
	    strstr(s.buf, "\"vocab_size\": \"0\"\n    }\n}"));
	str_release(&s);
	dataset_close(d);
}

static void
test_errors(void)
{
	struct dataset *d = dataset_open("corpora/a_u16", &e);
	struct samples_config c = {
		.split = "1", .num_samples = -1, .seq_length = 8, .add_extra_token = true
	};

	c.which = SPLIT_TEST;
	CHECK(!samples_open(d, &c, &e));
	CHECK_STR(e.msg, "corpora/a_u16: no test split: its share in --split '1' is 0");
	c.which = SPLIT_TRAIN;
	c.seed = 1LL << 32;
	CHECK(!samples_open(d, &c, &e));
	CHECK_STR(e.msg, "seed 4294967296: must be from 0 to 4294967295");
	c.seed = 0;
	c.seq_length = 0;
	CHECK(!samples_open(d, &c, &e));
	CHECK_STR(e.msg, "sequence length 0: must be from 1 to 2147483646");
	c.seq_length = 8;
	c.num_samples = INT64_MAX / 4;
	CHECK(!samples_open(d, &c, &e));
	CHECK_STR(e.msg, "2305843009213693951 samples of 8 tokens: more tokens than 63 bits count");
	dataset_close(d);
}

int
main(void)
{
	if (chdir("tests/golden/data") < 0) {
		perror("tests/golden/data");
		return 1;
	}
	test_cases();
	test_split();
	test_generator();
	test_consecutive();
	test_raw();
	test_cache();
	test_description();
	test_errors();
	return check_done();
}
