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

static int
read_fixed(const struct key *k, const struct json_value *from, struct err *e)
{
	bool is;

	if (json_bool(from, k->name, k->def != 0, &is, e) < 0)
		return -1;
	return is == (k->def != 0) ? 0 : err_set(e, "%s", k->why);
}

static int
read_int(const struct key *k, const struct json_value *from, struct model_config *c, struct err *e)
{
	int64_t *n = field(c, k), def = k->derive ? k->derive(c) : (int64_t)k->def;

	return json_int(from, k->name, k->stays ? *n : def, n, e);
}

/* Here, unlike in json_int, null is not the same as no member. */
static int
read_count(
    const struct key *k, const struct json_value *from, struct model_config *c, struct err *e)
{
	const struct json_value *v = json_get(from, k->name);
	int64_t *n = field(c, k);

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
read_number(
    const struct key *k, const struct json_value *from, struct model_config *c, struct err *e)
{
	double *x = field(c, k);

	return json_double(from, k->name, k->stays ? *x : k->def, x, e);
}

static int
read_bound(
    const struct key *k, const struct json_value *from, struct model_config *c, struct err *e)
{
	double *x = field(c, k);

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
read_not(const struct key *k, const struct json_value *from, bool *out, struct err *e)
{
	int rc = json_bool(from, k->name, k->def != 0, out, e);

	*out = !*out;
	return rc;
}

static int
read_key(const struct key *k, const struct json_value *from, struct model_config *c, struct err *e)
{
	switch (k->type) {
	case KEY_INT: return read_int(k, from, c, e);
	case KEY_COUNT: return read_count(k, from, c, e);
	case KEY_NUMBER: return read_number(k, from, c, e);
	case KEY_BOUND: return read_bound(k, from, c, e);
	case KEY_BOOL: return json_bool(from, k->name, k->def != 0, field(c, k), e);
	case KEY_NOT: return read_not(k, from, field(c, k), e);
	case KEY_WORD: return read_word(k, from, field(c, k), e);
	case KEY_FIXED: return read_fixed(k, from, e);
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

/* null for a value without a word: what is read back is another one. */
static void
write_word(const struct key *k, int value, struct str *out)
{
	const struct key_word *w = k->words;

	while (w->word && w->value != value)
		w++;
	if (w->word)
		str_addf(out, "\"%s\"", w->word);
	else
		str_adds(out, "null");
}

static void
write_count(int64_t n, struct str *out)
{
	if (n)
		str_addf(out, "%lld", (long long)n);
	else
		str_adds(out, "null");
}

static void
write_bound(double x, struct str *out)
{
	if (x > 0)
		str_add_double(out, x);
	else
		str_adds(out, "null");
}

static void
write_value(const struct key *k, const struct model_config *c, struct str *out)
{
	switch (k->type) {
	case KEY_INT: str_addf(out, "%lld", (long long)*(int64_t *)field(c, k)); break;
	case KEY_COUNT: write_count(*(int64_t *)field(c, k), out); break;
	case KEY_NUMBER: str_add_double(out, *(double *)field(c, k)); break;
	case KEY_BOUND: write_bound(*(double *)field(c, k), out); break;
	case KEY_BOOL: str_adds(out, *(bool *)field(c, k) ? "true" : "false"); break;
	case KEY_NOT: str_adds(out, *(bool *)field(c, k) ? "false" : "true"); break;
	case KEY_WORD: write_word(k, *(int *)field(c, k), out); break;
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
