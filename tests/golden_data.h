/*
 * golden_data.h - reading the cases of tests/golden/data: parameters, texts, arrays
 *
 * The test program's directory is tests/golden/data.
 */
#ifndef TESTS_GOLDEN_DATA_H
#define TESTS_GOLDEN_DATA_H

#include "lib/base/io.h"
#include "lib/format/npy.h"
#include "tests/check.h"

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
	case DTYPE_I32:
		return ((const int32_t *)a->data)[i];
	case DTYPE_U32:
		return ((const uint32_t *)a->data)[i];
	case DTYPE_I16:
		return ((const int16_t *)a->data)[i];
	case DTYPE_I64:
		return (double)((const int64_t *)a->data)[i];
	case DTYPE_U8:
		return ((const uint8_t *)a->data)[i];
	default:
		CHECK(!"golden array of an expected type");
		return 0;
	}
}

#endif
