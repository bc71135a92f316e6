/* merge_config.c - the YAML of mergekit in its plain form */
#include "ckpt/merge_config.h"
#include "lib/base/io.h"
#include "lib/base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 8 };
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

/* Where a value goes. */
static int
set_value(struct reading *r, const char *key, const char *value)
{
	struct merge_config *c = r->c;
	struct merge_model none, *m = c->count ? &c->model[c->count - 1] : &none;
	char name[200], *end;
	const struct {
		const char *name, **text;
		double *number;
	} row[] = {
		{ "merge_method", &c->method, NULL },
		{ "base_model", &c->base, NULL },
		{ "dtype", &c->dtype, NULL },
		{ "models.model", &m->path, NULL },
		{ "models.parameters.weight", NULL, &m->weight },
		{ "models.parameters.density", NULL, &m->density },
		{ "parameters.weight", NULL, &c->weight },
		{ "parameters.density", NULL, &c->density },
		{ "parameters.t", NULL, &c->t },
		{ "parameters.lambda", NULL, &c->lambda },
		{ "parameters.normalize", &c->normalize, NULL },
		{ "parameters.rescale", &c->rescale, NULL },
	};

	spell(r, key, name);
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		if (strcmp(name, row[i].name))
			continue;
		if (row[i].text) {
			*row[i].text = mem_pool_strndup(&c->pool, value, strlen(value));
			return 0;
		}
		*row[i].number = strtod(value, &end);
		return *end || !isfinite(*row[i].number)
		    ? refuse(r, "must be a finite number", name)
		    : 0;
	}
	return refuse(r, "is not read of such files", name);
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

static int
push(struct reading *r, size_t indent, const char *key)
{
	if (r->depth == DEPTH)
		return refuse(r, "too deep", key);
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

	if (!colon || (colon[1] && colon[1] != ' ' && colon[1] != '\r'))
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
