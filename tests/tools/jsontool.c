/*
 * jsontool.c - JSON for the shell tests
 *
 *   jsontool lines KEY <FILE       each line must be JSON; prints member KEY of each, "null" where
 *                                  it is missing
 *   jsontool covers A B [KEY ...]  every member of object A must be in B with the same type and
 *                                  value, and every further member of B null or one of the KEYs;
 *                                  otherwise names the member and exits with 1
 */
#include "lib/base/json.h"
#include "lib/base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether two values print alike. Members of nested objects must keep their order. */
static bool
same(const struct json_value *a, const struct json_value *b)
{
	struct str x = { 0 }, y = { 0 };
	bool equal;

	json_print(&x, a);
	json_print(&y, b);
	equal = !strcmp(x.buf, y.buf);
	if (!equal)
		fprintf(stderr, "jsontool: '%s': %s is not %s\n", a->key, y.buf, x.buf);
	str_release(&x);
	str_release(&y);
	return equal;
}

static int
covers(const char *path_a, const char *path_b, int count, char **extra)
{
	struct err e;
	struct json *a = json_read(path_a, 0, &e), *b = a ? json_read(path_b, 0, &e) : NULL;
	int bad = 0;

	if (!b) {
		fprintf(stderr, "jsontool: %s\n", e.msg);
		return 2;
	}
	for (size_t i = 0; i < json_root(a)->len; i++) {
		const struct json_value *v = &json_root(a)->item[i],
					*w = json_get(json_root(b), v->key);

		if (!w)
			fprintf(stderr, "jsontool: '%s' is missing\n", v->key);
		bad |= !w || !same(v, w);
	}
	for (size_t i = 0; i < json_root(b)->len; i++) {
		const struct json_value *w = &json_root(b)->item[i];
		bool known = w->type == JSON_NULL || json_get(json_root(a), w->key);

		for (int k = 0; k < count; k++)
			known |= !strcmp(extra[k], w->key);
		if (!known)
			fprintf(stderr, "jsontool: '%s' is one too many\n", w->key);
		bad |= !known;
	}
	json_free(a);
	json_free(b);
	return bad;
}

static int
lines(const char *key)
{
	char *line = NULL;
	size_t cap = 0;
	ssize_t n;
	struct err e;

	while ((n = getline(&line, &cap, stdin)) > 0) {
		struct json *j = json_parse(line, (size_t)n, "line", &e);
		struct str s = { 0 };

		if (!j) {
			fprintf(stderr, "jsontool: %s\n", e.msg);
			return 1;
		}
		json_print(&s, json_get(json_root(j), key));
		puts(s.buf);
		str_release(&s);
		json_free(j);
	}
	free(line);
	return 0;
}

int
main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "lines"))
		return lines(argv[2]);
	if (argc >= 4 && !strcmp(argv[1], "covers"))
		return covers(argv[2], argv[3], argc - 4, argv + 4);
	fprintf(stderr, "usage: jsontool lines KEY | covers A B [KEY ...]\n");
	return 2;
}
