/*
 * jsonget.c - reading a JSON file, and typed access to its tree
 *
 * The getters treat a member that is null like one that is absent, as the configs of transformers
 * do, and refuse a member of another type rather than convert it. Each gives a reason that names
 * the key; the caller puts the file before it.
 */
#include "lib/base/io.h"
#include "lib/base/json.h"
#include "lib/base/jsonnumber.h"

#include <stdlib.h>
#include <string.h>

/* The tree keeps copies of its strings, so the text is freed here. */
static struct json *
parse(char *text, size_t len, const char *path, struct err *e)
{
	struct json *j = json_parse_file(text, len, path, e);

	free(text);
	return j;
}

/*
 * max_bytes bounds the memory before anything is parsed. The caller frees the tree.
 */
struct json *
json_read(const char *path, size_t max_bytes, struct err *e)
{
	char *text;
	size_t len;

	return io_read_file(path, max_bytes, &text, &len, e) < 0 ? NULL : parse(text, len, path, e);
}

struct json *
json_read_regular(const char *path, size_t max_bytes, struct err *e)
{
	char *text;
	size_t len;

	return io_read_regular(path, max_bytes, &text, &len, e) < 0 ? NULL
								    : parse(text, len, path, e);
}

struct json *
json_read_python(const char *path, size_t max_bytes, struct err *e)
{
	struct str quoted = { 0 };
	struct json *j;
	char *text;
	size_t len;

	if (io_read_file(path, max_bytes, &text, &len, e) < 0)
		return NULL;
	if (!json_quote_words(text, len, &quoted)) {
		str_release(&quoted);
		return parse(text, len, path, e);
	}
	j = json_parse(quoted.buf, quoted.len, path, e);
	free(text);
	str_release(&quoted);
	return j;
}

/*
 * The last of several equal keys counts, as in Python, hence the search from the end. A v that is
 * NULL or no object has no members, so that look-ups can be nested without checks.
 */
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

/* NULL for a member that is missing or null. */
static const struct json_value *
present(const struct json_value *v, const char *key)
{
	const struct json_value *m = json_get(v, key);

	return m && m->type != JSON_NULL ? m : NULL;
}

/*
 * A number with a fraction or an exponent is not an integer here, even when its value is whole. def
 * is the value of an absent member; *out is undefined after an error.
 */
int
json_int(const struct json_value *v, const char *key, int64_t def, int64_t *out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->integer : def;
	return m && m->type != JSON_INT ? err_set(e, "\"%s\" must be an integer", key) : 0;
}

/* 0 for any other type. */
double
json_number(const struct json_value *v)
{
	return v->type == JSON_INT ? (double)v->integer : v->type == JSON_FLOAT ? v->number : 0;
}

/* Integers are accepted: people write 1 for 1.0. */
int
json_double(const struct json_value *v, const char *key, double def, double *out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? json_number(m) : def;
	return m && m->type != JSON_INT && m->type != JSON_FLOAT
	    ? err_set(e, "\"%s\" must be a number", key)
	    : 0;
}

/* 0 and 1 are not accepted: in a config they usually are a mistake. */
int
json_bool(const struct json_value *v, const char *key, bool def, bool *out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->boolean : def;
	return m && m->type != JSON_BOOL ? err_set(e, "\"%s\" must be true or false", key) : 0;
}

/* *out points into the tree, or is def; it is valid as long as they are. */
int
json_string(
    const struct json_value *v, const char *key, const char *def, const char **out, struct err *e)
{
	const struct json_value *m = present(v, key);

	*out = m ? m->string : def;
	return m && m->type != JSON_STRING ? err_set(e, "\"%s\" must be a string", key) : 0;
}
