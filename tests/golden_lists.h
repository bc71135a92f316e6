/*
 * golden_lists.h - the corpora of a case of tests/golden/data, and the samples wanted of each split
 */
#ifndef TESTS_GOLDEN_LISTS_H
#define TESTS_GOLDEN_LISTS_H

#include "lib/base/json.h"
#include "lib/data/paths.h"
#include "tests/golden_data.h"

/* [[prefixes], weights or null] as words for path_list_parse. */
static inline void
golden_list(const struct json_value *v, struct path_list *out)
{
	const char *word[64];
	char number[32][40];
	int n = 0;

	for (size_t i = 0; i < v->item[0].len; i++) {
		if (v->item[1].type == JSON_ARRAY) {
			snprintf(
			    number[i], sizeof number[i], "%.17g", json_number(&v->item[1].item[i]));
			word[n++] = number[i];
		}
		word[n++] = v->item[0].item[i].string;
	}
	CHECK(path_list_parse(n, word, "blend", out, &e) == 0);
}

/* wanted: -1 where a split is wanted once over. */
static __attribute__((noinline)) void
golden_lists(const char *params, struct data_paths *paths, int64_t wanted[SPLIT_COUNT])
{
	char text[2048] = "";
	struct json *one, *per, *counts;

	for (const char *p = strstr(params, "\nblend\t") + 7; *p != '\n'; p++)
		snprintf(text + strlen(text), 2, "%c", *p);
	one = json_parse(text, strlen(text), "blend", &e);
	param(params, "blend_per_split", text);
	per = json_parse(text, strlen(text), "blend_per_split", &e);
	param(params, "num_samples_train_valid_test", text);
	counts = json_parse(text, strlen(text), "wanted", &e);
	memset(paths, 0, sizeof *paths);
	paths->per_split = json_root(one)->type == JSON_NULL;
	if (!paths->per_split)
		golden_list(json_root(one), &paths->list[0]);
	for (int i = 0; i < SPLIT_COUNT; i++) {
		const struct json_value *n = &json_root(counts)->item[i];

		wanted[i] = n->type == JSON_NULL ? -1 : n->integer;
		if (paths->per_split)
			golden_list(&json_root(per)->item[i], &paths->list[i]);
	}
	json_free(one);
	json_free(per);
	json_free(counts);
}

#endif
