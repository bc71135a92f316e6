/* samples.c - index maps, samples and splits against the outputs of Megatron-LM in
 * tests/golden/data */
#include "lib/base/json.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/rng.h"
#include "tests/golden_data.h"
#include "tests/map_keys.h"
#include "tests/one_corpus.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One case: its parameters and the directory that its maps are written to. */
struct golden {
	char name[256], cache[64];
	char *params;
	const struct dataset *d;
	int64_t seq_length;
	struct samples_config config;
	char split[64], tokenizer[512];
};

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
	CHECK(doc.count == s->num_positions && shuffle.count == samples_count(s));
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

/* The files of the cache have the same names and bytes as Megatron-LM's. */
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
		CHECK(dataset_tokens(
			  g->d, part[i].sequence, part[i].first, part[i].count, one, &e) == 0);
		CHECK(!memcmp(one, tokens + at, (size_t)part[i].count * sizeof *one));
		at += part[i].count;
	}
	CHECK(at == count && samples_parts(s, sample, NULL, 0) == n);
}

enum { TEXT, TOKENS, LABELS, LOSS_MASK, POSITION_IDS, ATTENTION_MASK, ARRAYS };

/* A golden mask of [rows, s, s], 1 where a token does not see another, against the beginnings of
 * documents. */
static bool
same_mask(const struct npy *mask, int64_t row, int64_t s, const int32_t *documents)
{
	bool same = true;

	for (int64_t i = 0; i < s; i++)
		for (int64_t j = 0; j < s; j++)
			same = same &&
			    (element(mask, (row * s + i) * s + j) != 0) ==
				(j > i || j < documents[i]);
	return same;
}

/* Raw tokens and assembled sample of one row of the golden arrays. */
static void
check_row(const struct golden *g, const struct samples *s, const struct sample_options *o,
    const struct npy a[ARRAYS], int64_t row)
{
	enum { MAX = 1025 };
	int64_t tokens[MAX], width = a[0].shape[1], sample = (int64_t)element(&a[0], row * width),
			     n;
	int32_t in[MAX], labels[MAX], position[MAX], documents[MAX];
	float mask[MAX];
	struct sample out = {
		.tokens = in, .labels = labels, .position_ids = position, .loss_mask = mask
	};
	bool same = true;

	if (param_int(g->params, "reset_attention_mask"))
		out.documents = documents;
	memset(documents, 0, sizeof documents);

	n = samples_tokens(s, sample, tokens, &e);
	check_parts(g, s, sample, tokens, n);
	for (int64_t i = 0; i + 1 < width; i++)
		same =
		    same && (i < n ? (double)tokens[i] : -1) == element(&a[0], row * width + i + 1);
	CHECK(same);
	if (!a[TOKENS].data)
		return;
	sample_assemble(o, &(struct sample_tokens){ tokens, n, NULL }, g->seq_length, &out);
	if (row < a[ATTENTION_MASK].shape[0])
		same = same_mask(&a[ATTENTION_MASK], row, g->seq_length, documents);
	for (int64_t i = 0; i < g->seq_length; i++) {
		int64_t k = row * g->seq_length + i;

		same = same && element(&a[1], k) == in[i] && element(&a[2], k) == labels[i] &&
		    element(&a[3], k) == (double)mask[i] && element(&a[4], k) == position[i];
	}
	CHECK(same);
}

static void
check_samples(const struct golden *g, const struct samples *s)
{
	static const char *const what[ARRAYS] = { "text", "tokens", "labels", "loss_mask",
		"position_ids", "attention_mask" };
	struct npy a[ARRAYS] = { 0 };
	char pad[512], path[512];
	struct sample_options o = {
		.eod = param_int(g->params, "eod_id"),
		.add_extra_token = g->config.add_extra_token,
		.eod_mask_loss = param_int(g->params, "eod_mask_loss"),
		.reset_position_ids = param_int(g->params, "reset_position_ids"),
	};

	/* A pad id that is also the end of document is ambiguous and counts as none. */
	o.pad = *param(g->params, "pad_id", pad) == 'n' ? -1 : atoi(pad);
	if (o.pad == o.eod)
		o.pad = -1;
	if (samples_count(s) == 0)
		return;
	/* Some cases have the raw tokens alone. */
	for (int i = 0; i < ARRAYS; i++) {
		snprintf(path, sizeof path, "cases/%s/%s.%s.npy", g->name,
		    split_name[g->config.which], what[i]);
		if (i == TEXT || io_exists(path))
			open_golden(g, what[i], &a[i]);
	}
	CHECK(a[0].shape[1] == g->seq_length + 1 + g->config.add_extra_token && a[0].shape[0] > 0);
	for (int64_t row = 0; row < a[0].shape[0]; row++)
		check_row(g, s, &o, a, row);
	for (int i = 0; i < ARRAYS; i++)
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
	CHECK(samples_count(s) == split_int(g->params, g->config.which, "length"));
	CHECK(samples_tokens_per_epoch(s) ==
	    split_int(g->params, g->config.which, "tokens_per_epoch"));
	CHECK(samples_num_epochs(s) == split_int(g->params, g->config.which, "num_epochs"));
	CHECK(samples_separate_final_epoch(s) ==
	    split_int(g->params, g->config.which, "separate_final_epoch"));
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

/* Fills the parts of the configuration that all splits share. */
static void
read_case(struct golden *g)
{
	char path[512], v[512];

	snprintf(path, sizeof path, "cases/%s/params.tsv", g->name);
	g->params = read_text(path);
	g->seq_length = param_int(g->params, "sequence_length");
	snprintf(g->split, sizeof g->split, "%.60s", param(g->params, "split", v));
	golden_tokenizer(g->params, g->tokenizer);
	strcpy(g->cache, "/tmp/mikoshi-samples-XXXXXX");
	CHECK(mkdtemp(g->cache) != NULL);
	g->config = (struct samples_config){
		.split = g->split,
		.seq_length = g->seq_length,
		.seed = param_int(g->params, "seed"),
		.add_extra_token = param_int(g->params, "add_extra_token_to_sequence"),
		.tokenizer_json = g->tokenizer,
		.cache_dir = g->cache,
		.write_cache = true,
	};
}

/* Runs one case; one that must fail gives the expected reason. */
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
		g.config.drop_last_partial = i != SPLIT_VALID ||
		    param_int(g.params, "drop_last_partial_validation_sequence");
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
		    "which is 0; at least 2 tokens are needed: --split 58,1,1 gives some to every "
		    "split");
	} else {
		check_cache_names(g.name, g.cache);
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
		if (de->d_name[0] == '0' ||
		    de->d_name[0] == '1') { /* cases from 20 on are blends: blend.c */
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
			CHECK(m->begin[i] == json_number(&v->item[0]) &&
			    m->end[i] == json_number(&v->item[1]));
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

/* Raw outputs and shuffles of the generator: the listed values, and the raw output after them. */
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

/* Two shuffles from one generator: the second continues where the first stopped. */
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

/* Outputs of the generator, before and after a refill. */
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

/* Opens with c; the maps must equal those of `want` and come from the cache or not; the notes must
 * contain note, NULL: there must be none. */
static void
expect_maps(const struct dataset *d, const struct samples_config *c, const struct samples *want,
    bool from_cache, const char *note)
{
	struct samples *s = samples_open(d, c, &e);

	CHECK(s && samples_from_cache(s) == from_cache);
	if (s && note)
		CHECK(samples_note(s) && strstr(samples_note(s), note));
	else
		CHECK(s && !samples_note(s));
	for (int64_t i = 0; s && i < samples_count(want); i++)
		CHECK(samples_shuffle_index(s, i) == samples_shuffle_index(want, i));
	for (int64_t i = 0; s && i < want->num_positions; i++)
		CHECK(samples_document_index(s, i) == samples_document_index(want, i));
	samples_close(s);
}

/* DIR/HASH-GPTDataset-train-NAME */
static const char *
map_path(const char *dir, const struct samples *s, const char *name, char out[512])
{
	snprintf(out, 512, "%s/%s-GPTDataset-train-%s", dir, samples_hash(s), name);
	return out;
}

static const struct {
	const char *name;
	long offset;
	int value;
} damage[] = {
	{ "document_index.npy", 131, 0x7f },
	{ "document_index.npy", 128, 59 },
	{ "sample_index.npy", 136, 0xff },
	{ "sample_index.npy", 140, 0xff },
	{ "shuffle_index.npy", 129, 0xff },
	{ "shuffle_index.npy", 3, 'x' },
	{ "description.txt", 5, 'x' },
};

/* A corpus that may be changed, and an empty directory for its maps. */
struct cache_case {
	char dir[32], prefix[64], maps[64];
	struct dataset *d;
	struct samples_config c;
};

static void
cache_case_open(struct cache_case *k)
{
	char path[80];

	strcpy(k->dir, "/tmp/mikoshi-cache-XXXXXX");
	CHECK(mkdtemp(k->dir) != NULL);
	snprintf(k->prefix, sizeof k->prefix, "%s/x", k->dir);
	snprintf(k->maps, sizeof k->maps, "%s/maps", k->dir);
	snprintf(path, sizeof path, "%s.idx", k->prefix);
	CHECK(outfile_copy("corpora/a_u16.idx", path, &e) == 0);
	snprintf(path, sizeof path, "%s.bin", k->prefix);
	CHECK(outfile_copy("corpora/a_u16.bin", path, &e) == 0);
	k->d = dataset_open(k->prefix, &e);
	CHECK(k->d != NULL);
	k->c = (struct samples_config){
		.split = "9,1",
		.num_samples = 300,
		.seq_length = 8,
		.seed = 7,
		.add_extra_token = true,
		.drop_last_partial = true,
		.cache_dir = k->maps,
	};
}

static void
cache_case_close(struct cache_case *k)
{
	dataset_close(k->d);
	io_remove_tree(k->dir, &e);
}

/* True when a key of the set is in the directory. */
static bool
has_key(const struct cache_case *k, const struct samples *s)
{
	struct str keys = { 0 };
	bool has = read_keys(k->maps, &keys) > 0 && strstr(keys.buf, samples_hash(s));

	str_release(&keys);
	return has;
}

/* Damaged maps are not used. With a key they are rebuilt when writing is allowed; without one they
 * belong to another program and stay, and the new maps get another name. */
static void
test_damage(bool keyed)
{
	const char *note = keyed ? "; rebuilt" : "; they are kept, and the maps of this run are ";
	struct cache_case k;
	struct samples *want;
	char path[512];

	cache_case_open(&k);
	want = samples_open(k.d, &k.c, &e);
	CHECK(want && !samples_from_cache(want));
	expect_maps(k.d, &k.c, want, false, NULL);
	for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
		k.c.write_cache = true;
		CHECK(io_remove_tree(k.maps, &e) == 0 || i == 0);
		expect_maps(k.d, &k.c, want, false, NULL);
		map_path(k.maps, want, damage[i].name, path);
		poke(path, damage[i].offset, damage[i].value);
		CHECK(keyed || remove_keys(k.maps) == 1);
		k.c.write_cache = false;
		expect_maps(k.d, &k.c, want, false, note);
		k.c.write_cache = true;
		expect_maps(k.d, &k.c, want, false, note);
		expect_maps(k.d, &k.c, want, true, NULL);
		CHECK(has_key(&k, want) == keyed);
	}
	CHECK(io_remove_tree(k.maps, &e) == 0);
	expect_maps(k.d, &k.c, want, false, NULL);
	CHECK(truncate(map_path(k.maps, want, "shuffle_index.npy", path), 100) == 0);
	expect_maps(k.d, &k.c, want, false, "; rebuilt");
	CHECK(unlink(map_path(k.maps, want, "sample_index.npy", path)) == 0);
	expect_maps(k.d, &k.c, want, false, NULL);
	samples_close(want);
	k.c.cache_dir = "corpora/a_u16.idx";
	CHECK(!samples_open(k.d, &k.c, &e));
	CHECK_STR(e.msg, "cannot create directory 'corpora/a_u16.idx': a file of that name exists");
	cache_case_close(&k);
}

/* The last partial sample: maps that are the same with and without it serve both. */
static void
test_partial(struct cache_case *k)
{
	static const int64_t length[] = { 8, 11 };

	for (int i = 0; i < 2; i++) {
		struct samples_config c = k->c;
		struct samples *dropped, *kept;
		bool same;

		c.seq_length = length[i];
		dropped = samples_open(k->d, &c, &e);
		c.drop_last_partial = false;
		kept = samples_open(k->d, &c, &e);
		same = kept && samples_count(kept) == samples_count(dropped);
		CHECK(same == (i == 0) && samples_from_cache(kept) == same);
		CHECK(!samples_note(kept) == same);
		for (int times = 0; times < 2; times++) {
			expect_maps(k->d, &c, kept, true, NULL);
			c.drop_last_partial = true;
			expect_maps(k->d, &c, dropped, true, NULL);
			c.drop_last_partial = false;
		}
		samples_close(dropped);
		samples_close(kept);
	}
}

/* The key covers what Megatron-LM's names leave out. Maps of other options (the extra token, the
 * last partial sample) exist side by side; those of a changed corpus are replaced. */
static void
test_key(void)
{
	struct timespec old[2] = { { 1000, 0 }, { 1000, 5 } };
	struct samples *want, *other;
	struct dataset *touched[2];
	struct cache_case k;
	char path[512];

	cache_case_open(&k);
	k.c.write_cache = true;
	want = samples_open(k.d, &k.c, &e);
	CHECK(want && has_key(&k, want));
	k.c.add_extra_token = false;
	other = samples_open(k.d, &k.c, &e);
	CHECK(other && !samples_from_cache(other) &&
	    strcmp(samples_hash(want), samples_hash(other)) != 0);
	CHECK(samples_note(other) &&
	    strstr(samples_note(other), "; they are kept, and the maps of this run are "));
	expect_maps(k.d, &k.c, other, true, NULL);
	samples_close(other);
	k.c.add_extra_token = true;
	expect_maps(k.d, &k.c, want, true, NULL);
	test_partial(&k);
	expect_maps(k.d, &k.c, want, true, NULL);
	snprintf(path, sizeof path, "%s.bin", k.prefix);
	CHECK(utimensat(AT_FDCWD, path, old, 0) == 0);
	/* The open dataset is unchanged, so the maps are still valid for it. */
	expect_maps(k.d, &k.c, want, true, NULL);
	touched[0] = dataset_open(k.prefix, &e);
	CHECK(touched[0] != NULL);
	expect_maps(touched[0], &k.c, want, false, "other data; rebuilt");
	expect_maps(touched[0], &k.c, want, true, NULL);
	/* Another process has just checked them. */
	k.c.trust_cache = true;
	expect_maps(touched[0], &k.c, want, true, NULL);
	CHECK(utimensat(AT_FDCWD, path, NULL, 0) == 0);
	touched[1] = dataset_open(k.prefix, &e);
	CHECK(touched[1] != NULL);
	expect_maps(touched[1], &k.c, want, false, "other data; rebuilt");
	dataset_close(touched[0]);
	dataset_close(touched[1]);
	samples_close(want);
	cache_case_close(&k);
}

/* One name has the keys of several states of its corpus, of which that of the files counts. A set
 * that was being replaced when the program died has its key, and is replaced again. */
static void
test_replaced(void)
{
	struct samples *first, *second;
	struct dataset *other;
	struct cache_case k;
	char path[512], *old;
	size_t len;

	cache_case_open(&k);
	k.c.write_cache = true;
	first = samples_open(k.d, &k.c, &e);
	map_path(k.maps, first, "document_index.npy", path);
	CHECK(io_read_file(path, 0, &old, &len, &e) == 0);
	snprintf(path, sizeof path, "%s.idx", k.prefix);
	CHECK(outfile_copy("corpora/b_i32.idx", path, &e) == 0);
	snprintf(path, sizeof path, "%s.bin", k.prefix);
	CHECK(outfile_copy("corpora/b_i32.bin", path, &e) == 0);
	other = dataset_open(k.prefix, &e);
	second = samples_open(other, &k.c, &e);
	CHECK(second && !samples_from_cache(second));
	CHECK_STR(samples_hash(second), samples_hash(first));
	CHECK(samples_note(second) && strstr(samples_note(second), "; rebuilt"));
	map_path(k.maps, first, "document_index.npy", path);
	CHECK(outfile_write(path, old, len, &e) == 0);
	expect_maps(other, &k.c, second, false, "; rebuilt");
	expect_maps(other, &k.c, second, true, NULL);
	expect_maps(k.d, &k.c, first, false, "; rebuilt");
	expect_maps(k.d, &k.c, first, true, NULL);
	CHECK(read_keys(k.maps, NULL) == 2);
	free(old);
	samples_close(first);
	samples_close(second);
	dataset_close(other);
	cache_case_close(&k);
}

/* Lines of keys that are damaged, or of another version, are nobody's: the maps are validated. */
static void
test_damaged_keys(void)
{
	static const char *const text[] = { "", "mikoshi_keys 1", "mikoshi_keys 1\nx\n\ny",
		"mikoshi_keys 2\nx y\n" };
	struct cache_case k;
	struct samples *want;
	char path[512];

	cache_case_open(&k);
	want = samples_open(k.d, &k.c, &e);
	k.c.write_cache = true;
	expect_maps(k.d, &k.c, want, false, NULL);
	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		CHECK(remove_keys(k.maps) > 0);
		snprintf(path, sizeof path, "%s/%032d-keys.txt", k.maps, 0);
		CHECK(outfile_write(path, text[i], strlen(text[i]), &e) == 0);
		expect_maps(k.d, &k.c, want, true, NULL);
		CHECK(has_key(&k, want));
	}
	samples_close(want);
	cache_case_close(&k);
}

/* Megatron-LM's maps have no key: valid ones are accepted, also with rows of 64 bits, and get a
 * key. */
static void
test_foreign(void)
{
	struct samples *want;
	struct cache_case k;
	char path[512];
	struct npy rows;
	int64_t *wide, shape[2];

	cache_case_open(&k);
	k.c.write_cache = true;
	want = samples_open(k.d, &k.c, &e);
	CHECK(remove_keys(k.maps) == 1);
	k.c.write_cache = false;
	expect_maps(k.d, &k.c, want, true, NULL);
	CHECK(read_keys(k.maps, NULL) == 0);
	k.c.write_cache = true;
	expect_maps(k.d, &k.c, want, true, NULL);
	CHECK(has_key(&k, want));
	expect_maps(k.d, &k.c, want, true, NULL);
	CHECK(remove_keys(k.maps) == 1 &&
	    npy_open(&rows, map_path(k.maps, want, "sample_index.npy", path), &e) == 0);
	wide = mem_alloc((size_t)rows.count, sizeof *wide);
	shape[0] = rows.shape[0];
	shape[1] = 2;
	for (int64_t i = 0; i < rows.count; i++)
		wide[i] = ((const int32_t *)rows.data)[i];
	npy_close(&rows);
	CHECK(npy_write(path, DTYPE_I64, 2, shape, wide, &e) == 0);
	expect_maps(k.d, &k.c, want, true, NULL);
	expect_maps(k.d, &k.c, want, true, NULL);
	free(wide);
	samples_close(want);
	cache_case_close(&k);
}

/* Several processes build the same maps at once: each gets valid ones, and no temporary file is
 * left. */
static void
test_concurrent(void)
{
	enum { PROCESSES = 6 };
	struct cache_case k;
	struct samples *want;
	struct dirent *de;
	int files = 0;
	DIR *dir;

	cache_case_open(&k);
	k.c.num_samples = 50000;
	want = samples_open(k.d, &k.c, &e);
	k.c.write_cache = true;
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			struct samples *s = samples_open(k.d, &k.c, &e);

			_exit(!s ||
			    samples_shuffle_index(s, 4711) != samples_shuffle_index(want, 4711));
		}
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	expect_maps(k.d, &k.c, want, true, NULL);
	dir = opendir(k.maps);
	while (dir && (de = readdir(dir)))
		files += de->d_name[0] != '.';
	closedir(dir);
	CHECK(files == 5);
	samples_close(want);
	cache_case_close(&k);
}

/* Rows have 64 bits when positions need more than 31: that is some 8 GB of document index, so only
 * the rule is tested. */
static void
test_row_type(void)
{
	CHECK(samples_row_type(INT32_MAX) == DTYPE_I32 &&
	    samples_row_type((int64_t)INT32_MAX + 1) == DTYPE_I64);
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

/* A dataset of one sequence with a sparse .bin. */
static struct dataset *
one_sequence(const char *dir, int32_t length)
{
	char prefix[64], path[80];
	int64_t one = 1, two = 2, offset = 0, document[2] = { 0, 1 };
	FILE *f;

	snprintf(prefix, sizeof prefix, "%s/one", dir);
	snprintf(path, sizeof path, "%s.idx", prefix);
	f = fopen(path, "wb");
	CHECK(f && fwrite("MMIDIDX\0\0\1\0\0\0\0\0\0\0\10", 1, 18, f) == 18 &&
	    fwrite(&one, 8, 1, f) == 1 && fwrite(&two, 8, 1, f) == 1 &&
	    fwrite(&length, 4, 1, f) == 1 && fwrite(&offset, 8, 1, f) == 1 &&
	    fwrite(document, 8, 2, f) == 2 && fclose(f) == 0);
	snprintf(path, sizeof path, "%s.bin", prefix);
	f = fopen(path, "wb");
	CHECK(f && fclose(f) == 0 && truncate(path, 2 * (off_t)length) == 0);
	return dataset_open(prefix, &e);
}

/* Cases that Megatron-LM counts wrongly or for ever: a ceiling in single precision, a corpus of one
 * token. */
static void
test_counts(void)
{
	char dir[] = "/tmp/mikoshi-counts-XXXXXX", want[160];
	struct samples_config c = { .num_samples = -1, .seq_length = 8, .which = SPLIT_VALID };
	struct samples *s;
	struct dataset *d;

	CHECK(mkdtemp(dir) != NULL);
	d = one_sequence(dir, 100000001);
	s = d ? samples_plan(d, &c, &e) : NULL;
	CHECK(s && samples_count(s) == 12500001);
	samples_close(s);
	c.drop_last_partial = true;
	s = d ? samples_plan(d, &c, &e) : NULL;
	CHECK(s && samples_count(s) == 12500000);
	samples_close(s);
	dataset_close(d);
	for (int32_t length = 1; length >= 0; length--) {
		d = one_sequence(dir, length);
		for (c.num_samples = -1; d && c.num_samples < 2; c.num_samples++) {
			CHECK(!samples_open(d, &c, &e));
			snprintf(want, sizeof want,
			    "%s/one: %d tokens in 1 sequences, for the valid split; at least 2 "
			    "tokens are needed",
			    dir, length);
			CHECK_STR(e.msg, want);
		}
		dataset_close(d);
	}
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
	test_split();
	test_generator();
	test_consecutive();
	test_raw();
	test_damage(true);
	test_damage(false);
	test_key();
	test_replaced();
	test_damaged_keys();
	test_foreign();
	test_concurrent();
	test_row_type();
	test_counts();
	test_description();
	test_errors();
	return check_done();
}
