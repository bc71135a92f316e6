/* pickle.c - fuzz target: any bytes as a pickle; what is accepted is printed, and every accessor is
 * called */
#include "lib/ckpt/pickle.h"

enum { DEPTH = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Visits at most `left` values: what a pickle shares is reached on many ways. */
static void
visit(const struct pickle_value *v, int depth, int *left, struct str *text)
{
	int64_t i;
	double x;

	if (!v || depth > DEPTH || --*left < 0)
		return;
	pickle_print(v, text);
	pickle_int(v, &i);
	pickle_double(v, &x);
	if (pickle_string(v))
		str_adds(text, pickle_string(v));
	visit(pickle_get(v, "a"), depth + 1, left, text);
	visit(pickle_at(v, 1), depth + 1, left, text);
	for (uint32_t k = 0; pickle_item(v, k); k++)
		visit(pickle_item(v, k), depth + 1, left, text);
	if (v->type == PICKLE_OBJECT) {
		pickle_is(v, "collections.OrderedDict");
		visit(v->object->of, depth + 1, left, text);
		visit(v->object->state, depth + 1, left, text);
	}
	for (uint32_t k = 0; v->type == PICKLE_DICT && k < v->len; k++) {
		visit(v->pair[k].key, depth + 1, left, text);
		visit(v->pair[k].value, depth + 1, left, text);
	}
	if (v->type == PICKLE_PERSISTENT)
		visit(v->id, depth + 1, left, text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pickle *p;
	struct str text = { 0 };
	struct err e;
	int left = 1000;

	if (pickle_read(data, size, &pickle_limits_torch, &p, &e) == 0)
		visit(pickle_root(p), 0, &left, &text);
	pickle_free(p);
	str_release(&text);
	return 0;
}
