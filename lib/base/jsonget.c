/* jsonget.c - reading a JSON file and asking its tree */
#include "lib/base/io.h"
#include "lib/base/json.h"

#include <stdlib.h>
#include <string.h>

struct json *
json_read(const char *path, size_t max_bytes, struct err *e)
{
	char *text;
	size_t len;
	struct json *j;

	if (io_read_file(path, max_bytes, &text, &len, e) < 0)
		return NULL;
	j = json_parse(text, len, path, e);
	free(text);
	return j;
}

const struct json_value *
json_get(const struct json_value *v, const char *key)
{
	size_t n = strlen(key);

	if (!v || v->type != JSON_OBJECT)
		return NULL;
	for (size_t i = v->len; i-- > 0;)
		if (v->item[i].key_len == n && !memcmp(v->item[i].key, key, n))
			return &v->item[i];
	return NULL;
}

/* The member when it is there and not null. */
static const struct json_value *
present(const struct json_value *v, const char *key)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type != JSON_NULL ? m : NULL;
}

int
json_int(const struct json_value *v, const char *key, int64_t def, int64_t *out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->integer : def;
	return m && m->type != JSON_INT ? err_set(e, "\"%s\" must be an integer", key) : 0;
}

int
json_double(const struct json_value *v, const char *key, double def, double *out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->number : def;
	return m && m->type != JSON_INT && m->type != JSON_FLOAT
	    ? err_set(e, "\"%s\" must be a number", key)
	    : 0;
}

int
json_bool(const struct json_value *v, const char *key, bool def, bool *out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->boolean : def;
	return m && m->type != JSON_BOOL ? err_set(e, "\"%s\" must be true or false", key) : 0;
}

int
json_string(
    const struct json_value *v, const char *key, const char *def, const char **out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->string : def;
	return m && m->type != JSON_STRING ? err_set(e, "\"%s\" must be a string", key) : 0;
}
