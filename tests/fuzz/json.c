/* json.c - fuzz target: any bytes as JSON; an accepted tree is walked completely */
#include "lib/base/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every value, key and string, and looks up each key. */
static size_t
walk(const struct json_value *v)
{
	size_t n = 1;

	if (v->type == JSON_STRING)
		n += strlen(v->string) > v->len;
	for (size_t i = 0; (v->type == JSON_ARRAY || v->type == JSON_OBJECT) && i < v->len; i++) {
		n += walk(&v->item[i]);
		if (v->type == JSON_OBJECT && i < 16 &&
		    strlen(v->item[i].key) == v->item[i].key_len && !json_get(v, v->item[i].key))
			__builtin_trap();
	}
	return n;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e;
	struct json *j = json_parse((const char *)data, size, "fuzz", &e);

	if (j)
		walk(json_root(j));
	json_free(j);
	return 0;
}
