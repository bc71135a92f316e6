/*
 * keys.c - reads and writes the members of a config.json by their rows
 *
 * Numbers are written as Python writes them: a float always has a point or an exponent, as
 * transformers expects.
 */
#include "lib/model/keys.h"

#include <string.h>

static void *
field(const struct model_config *c, const struct key *k)
{
	return (char *)(uintptr_t)c + k->off;
}

/* Python takes 16.0 for 16 wherever no class says the type. */
int
keys_int(const struct json_value *from, const char *name, int64_t def, int64_t *n, struct err *e)
{
	const struct json_value *v = json_get(from, name);

	if (!v || v->type != JSON_FLOAT || v->number != (double)(int32_t)v->number)
		return json_int(from, name, def, n, e);
	*n = (int64_t)v->number;
	return 0;
}

static int
read_word(const struct key *k, const struct json_value *from, int *out, struct err *e)
{
	const char *word;

	if (json_string(from, k->name, k->words[0].word, &word, e) < 0)
		return -1;
	for (const struct key_word *w = k->words; w->word; w++)
		if (!strcmp(w->word, word)) {
			*out = w->value;
			return 0;
		}
	return err_set(e, "\"%s\" is '%s'; %s", k->name, word, k->why);
}

/* Here, unlike in json_int, null is not the same as no member. */
static int
read_count(const struct key *k, const struct json_value *from, int64_t *n, struct err *e)
{
	const struct json_value *v = json_get(from, k->name);

	*n = v ? 0 : (int64_t)k->def;
	if (!v || v->type == JSON_NULL)
		return 0;
	if (json_int(from, k->name, 0, n, e) < 0)
		return -1;
	if (*n >= 1 && *n <= 1 << 30)
		return 0;
	return err_set(
	    e, "\"%s\" is %lld; must be from 1 to 2^30, or null", k->name, (long long)*n);
}

static int
read_bound(const struct key *k, const struct json_value *from, double *x, struct err *e)
{
	*x = k->def;
	if (!json_get(from, k->name))
		return 0;
	if (json_double(from, k->name, 0, x, e) < 0)
		return -1;
	if (*x > 0 || json_get(from, k->name)->type == JSON_NULL)
		return 0;
	return err_set(e, "\"%s\" is %g; must be above 0, or null", k->name, *x);
}

static int
read_key(const struct key *k, const struct json_value *from, struct model_config *c, struct err *e)
{
	void *at = field(c, k);
	int64_t *n = at;
	double *x = at;
	bool *is = at, def = k->def != 0, said;

	switch (k->type) {
	case KEY_INT:
		if (!k->stays)
			*n = k->derive ? k->derive(c) : (int64_t)k->def;
		if (k->null && json_get(from, k->name))
			*n = k->null(c);
		return keys_int(from, k->name, *n, n, e);
	case KEY_COUNT: return read_count(k, from, n, e);
	case KEY_NUMBER: return json_double(from, k->name, k->stays ? *x : k->def, x, e);
	case KEY_BOUND: return read_bound(k, from, x, e);
	case KEY_BOOL: return json_bool(from, k->name, def, is, e);
	case KEY_NOT:
		if (json_bool(from, k->name, def, &said, e) < 0)
			return -1;
		*is = !said;
		return 0;
	case KEY_WORD: return read_word(k, from, at, e);
	case KEY_FIXED:
		if (json_bool(from, k->name, def, &said, e) < 0)
			return -1;
		return said == def ? 0 : err_set(e, "%s", k->why);
	default: BUG("no key has type %d", (int)k->type);
	}
}

int
keys_read(const struct key *keys, int count, const struct json_value *from, struct model_config *c,
    struct err *e)
{
	for (int i = 0; i < count; i++)
		if (!keys[i].written_only && read_key(&keys[i], from, c, e) < 0)
			return -1;
	return 0;
}

/* null for a count or a bound of 0, which is none, and for a value without a word, so that what is
 * read back is another one. */
static void
write_value(const struct key *k, const struct model_config *c, struct str *out)
{
	const void *at = field(c, k);
	const int64_t *n = at;
	const double *x = at;
	const bool *is = at;
	const int *value = at;
	const struct key_word *w = k->words;

	while (k->type == KEY_WORD && w->word && w->value != *value)
		w++;
	if ((k->type == KEY_COUNT && !*n) || (k->type == KEY_BOUND && !(*x > 0)) ||
	    (k->type == KEY_WORD && !w->word)) {
		str_adds(out, "null");
		return;
	}
	switch (k->type) {
	case KEY_INT:
	case KEY_COUNT: str_addf(out, "%lld", (long long)*n); break;
	case KEY_NUMBER:
	case KEY_BOUND: str_add_double(out, *x); break;
	case KEY_BOOL: str_adds(out, *is ? "true" : "false"); break;
	case KEY_NOT: str_adds(out, *is ? "false" : "true"); break;
	case KEY_WORD: str_addf(out, "\"%s\"", w->word); break;
	case KEY_FIXED: str_adds(out, k->def != 0 ? "true" : "false"); break;
	}
}

void
keys_write(const struct key *keys, int count, const struct model_config *c, const char *indent,
    struct str *out)
{
	for (int i = 0; i < count; i++) {
		if (keys[i].read_only)
			continue;
		str_addf(out, ",\n%s\"%s\": ", indent, keys[i].name);
		write_value(&keys[i], c, out);
	}
}
