/* merge_config.c - the YAML of mergekit in its plain form */
#include "ckpt/merge_config.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 3 /* models, an item, its parameters */ };
static const size_t file_max = (size_t)1 << 20;

/* A key whose members are being read, or an item of a list. */
struct level {
	size_t indent;
	const char *key; /* "": an item */
};

struct reading {
	struct merge_config *c;
	const char *path;
	long line;
	struct level level[DEPTH];
	int depth;
	struct err *e;
};

static int
refuse(const struct reading *r, const char *what, const char *key)
{
	return err_at(r->e, r->path, r->line, "'%s': %s", key, what);
}

/* The keys that lead to the line, with points: "models.parameters.weight". */
static void
spell(const struct reading *r, const char *key, char out[200])
{
	size_t n = 0;

	for (int i = 0; i < r->depth; i++)
		if (*r->level[i].key && n < 150)
			n += (size_t)snprintf(out + n, 200 - n, "%.60s.", r->level[i].key);
	snprintf(out + n, 200 - n, "%.40s", key);
}

/* The keys that are read. */
static const struct key {
	const char *name;
	enum { TEXT, NUMBER, MEMBERS } holds;
	size_t at; /* of struct merge_config, or of the last model where the name begins with it */
} keys[] = {
	{ "merge_method", TEXT, offsetof(struct merge_config, method) },
	{ "base_model", TEXT, offsetof(struct merge_config, base) },
	{ "dtype", TEXT, offsetof(struct merge_config, dtype) },
	{ "models", MEMBERS, 0 },
	{ "models.model", TEXT, offsetof(struct merge_model, path) },
	{ "models.parameters", MEMBERS, 0 },
	{ "models.parameters.weight", NUMBER, offsetof(struct merge_model, weight) },
	{ "models.parameters.density", NUMBER, offsetof(struct merge_model, density) },
	{ "parameters", MEMBERS, 0 },
	{ "parameters.weight", NUMBER, offsetof(struct merge_config, weight) },
	{ "parameters.density", NUMBER, offsetof(struct merge_config, density) },
	{ "parameters.t", NUMBER, offsetof(struct merge_config, t) },
	{ "parameters.lambda", NUMBER, offsetof(struct merge_config, lambda) },
	{ "parameters.normalize", TEXT, offsetof(struct merge_config, normalize) },
	{ "parameters.rescale", TEXT, offsetof(struct merge_config, rescale) },
};

/* The row of a key; NULL, with the reason, when there is none. */
static const struct key *
find_key(const struct reading *r, const char *name)
{
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strcmp(name, keys[i].name))
			return &keys[i];
	refuse(r, "is not read of such files", name);
	return NULL;
}

/* Where a value goes; a model's keys come after its item. */
static int
set_value(struct reading *r, const char *key, const char *value)
{
	struct merge_config *c = r->c;
	const struct key *k;
	char name[200], *end, *at;
	double *number;

	spell(r, key, name);
	k = find_key(r, name);
	if (!k)
		return -1;
	at = (char *)c;
	if (!strncmp(name, "models.", 7)) {
		if (c->count == 0)
			return refuse(r, "is of no item of the list", name);
		at = (char *)&c->model[c->count - 1];
	}
	at += k->at;
	if (k->holds == MEMBERS)
		return refuse(r, "must have its members in the next lines", name);
	if (k->holds == TEXT) {
		*(const char **)(void *)at = mem_pool_strndup(&c->pool, value, strlen(value));
		return 0;
	}
	number = (double *)(void *)at;
	*number = strtod(value, &end);
	return *end || !isfinite(*number) ? refuse(r, "must be a finite number", name) : 0;
}

/* Removes what surrounds a value: a comment, blanks, quotes. */
static char *
trim_value(char *at)
{
	size_t n;
	char quote;

	at += strspn(at, " ");
	quote = *at == '"' || *at == '\'' ? *at : 0;
	if (quote && strchr(at + 1, quote)) {
		*strchr(at + 1, quote) = '\0';
		return at + 1;
	}
	for (char *p = at; *p; p++)
		if (*p == '#' && (p == at || p[-1] == ' '))
			*p = '\0';
	for (n = strlen(at); n && strchr(" \r\t", at[n - 1]); n--)
		at[n - 1] = '\0';
	return at;
}

/* A key whose members are in the next lines, or an item of a list, without a name. */
static int
push(struct reading *r, size_t indent, const char *key)
{
	const struct key *k;
	char name[200];

	spell(r, key, name);
	k = *key ? find_key(r, name) : NULL;
	if (*key && (!k || k->holds != MEMBERS))
		return k
		    ? refuse(r,
			  "must have its value in its line; a list, such as one of values over "
			  "layers, is not read",
			  name)
		    : -1;
	r->level[r->depth++] =
	    (struct level){ indent, mem_pool_strndup(&r->c->pool, key, strlen(key)) };
	return 0;
}

/* An item of a list: only models are one. */
static int
begin_item(struct reading *r, size_t indent)
{
	struct merge_config *c = r->c;

	while (r->depth &&
	    (r->level[r->depth - 1].indent > indent ||
		(r->level[r->depth - 1].indent == indent && !*r->level[r->depth - 1].key)))
		r->depth--;
	if (r->depth != 1 || strcmp(r->level[0].key, "models"))
		return refuse(r, "a list, such as one of values over layers, is not read",
		    r->depth ? r->level[r->depth - 1].key : "-");
	c->model = mem_realloc(c->model, (size_t)c->count + 1, sizeof *c->model);
	c->model[c->count++] = (struct merge_model){ NULL, NAN, NAN };
	return push(r, indent, "");
}

/* "key: value", or "key:" with members in the next lines. */
static int
read_key(struct reading *r, size_t indent, char *at)
{
	char *colon = strchr(at, ':'), *value;

	if (!colon || colon == at || (colon[1] && colon[1] != ' ' && colon[1] != '\r'))
		return refuse(r, "is no 'key: value'", at);
	*colon = '\0';
	while (r->depth && r->level[r->depth - 1].indent >= indent)
		r->depth--;
	value = trim_value(colon + 1);
	if (*value && strchr("[{&*|>", *value))
		return refuse(r, "a list, such as one of values over layers, is not read", at);
	return *value ? set_value(r, at, value) : push(r, indent, at);
}

static int
read_line(struct reading *r, char *line)
{
	size_t indent = strspn(line, " ");
	char *at = line + indent;

	if (!*at || *at == '#' || *at == '\r' || !strncmp(at, "---", 3))
		return 0;
	if (*at == '\t')
		return refuse(r, "a tab indents nothing", at + 1);
	if (*at != '-')
		return read_key(r, indent, at);
	if (begin_item(r, indent) < 0)
		return -1;
	at += 1 + strspn(at + 1, " ");
	return *at ? read_key(r, (size_t)(at - line), at) : 0;
}

int
merge_config_read(struct merge_config *c, const char *path, struct err *e)
{
	struct reading r = { .c = c, .path = path, .e = e };
	char *text, *rest = NULL;
	int rc;

	*c = (struct merge_config){ .t = NAN, .lambda = NAN, .weight = NAN, .density = NAN };
	rc = io_read_file(path, file_max, &text, NULL, e);
	if (rc < 0)
		return -1;
	for (char *line = text; line && rc == 0; line = rest) {
		rest = strchr(line, '\n');
		if (rest)
			*rest++ = '\0';
		r.line++;
		rc = read_line(&r, line);
	}
	free(text);
	for (int i = 0; i < c->count && rc == 0; i++)
		if (!c->model[i].path)
			rc = err_at(e, path, 0, "item %d of 'models' has no 'model'", i + 1);
	return rc;
}

void
merge_config_release(struct merge_config *c)
{
	mem_pool_release(&c->pool);
	free(c->model);
	c->model = NULL;
}
