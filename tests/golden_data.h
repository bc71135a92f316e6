/*
 * golden_data.h - reading the cases of tests/golden/data: parameters, texts, arrays
 *
 * The test program's directory is tests/golden/data.
 */
#ifndef TESTS_GOLDEN_DATA_H
#define TESTS_GOLDEN_DATA_H

#include "lib/base/io.h"
#include "lib/data/npy.h"
#include "lib/data/samples.h"
#include "tests/check.h"

#include <dirent.h>

static struct err e;

/* The value of a key in text of "key TAB value" lines; "" when it is not there. */
static inline const char *
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

static inline int64_t
param_int(const char *text, const char *key)
{
	char v[512];

	return strtoll(param(text, key, v), NULL, 10);
}

/* The number of "train.KEY", or that of another split. */
static inline int64_t
split_int(const char *text, enum split which, const char *key)
{
	char name[64];

	snprintf(name, sizeof name, "%s.%s", split_name[which], key);
	return param_int(text, name);
}

/* The description of a case's tokenizer. */
static inline void
golden_tokenizer(const char *params, char out[512])
{
	char v[512], vocab[600], eod[600], pad[600];
	const char *option[3] = { vocab, eod, pad };
	struct str tokenizer = { 0 };

	snprintf(vocab, sizeof vocab, "vocab_size=%s", param(params, "vocab_size", v));
	snprintf(eod, sizeof eod, "eod_id=%s", param(params, "eod_id", v));
	snprintf(pad, sizeof pad, "pad_id=%s", param(params, "pad_id", v));
	samples_tokenizer(NULL, NULL, option, *v == 'n' ? 2 : 3, &tokenizer);
	snprintf(out, 512, "%s", tokenizer.buf);
	str_release(&tokenizer);
}

static inline char *
read_text(const char *path)
{
	char *text;

	if (io_read_file(path, 0, &text, NULL, &e) < 0) {
		fprintf(stderr, "%s\n", e.msg);
		exit(1);
	}
	return text;
}

/* The cache holds the files that Megatron-LM wrote for a case, keys, and no others. */
static inline void
check_cache_names(const char *name, const char *cache)
{
	char *list = read_text("cache_files.tsv"), path[1024];
	int want = 0, have = 0;
	DIR *dir = opendir(cache);
	struct dirent *de;

	for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n")) {
		char *tab = strchr(line, '\t');

		*tab = '\0';
		if (strcmp(line, name) != 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", cache, tab + 1);
		CHECK(io_exists(path));
		want++;
	}
	while (dir && (de = readdir(dir)))
		have += de->d_name[0] != '.' && !strstr(de->d_name, "-keys.txt");
	if (dir)
		closedir(dir);
	CHECK(want == have);
	free(list);
}

static inline void
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
static inline double
element(const struct npy *a, int64_t i)
{
	switch (a->dtype) {
	case DTYPE_I32: return ((const int32_t *)a->data)[i];
	case DTYPE_U32: return ((const uint32_t *)a->data)[i];
	case DTYPE_I16: return ((const int16_t *)a->data)[i];
	case DTYPE_I64: return (double)((const int64_t *)a->data)[i];
	case DTYPE_U8: return ((const uint8_t *)a->data)[i];
	default: CHECK(!"golden array of an expected type"); return 0;
	}
}

#endif
