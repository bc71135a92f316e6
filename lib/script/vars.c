/*
 * vars.c - values, variables and assignments
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <string.h>

/* A launch script makes some kilobytes of values; these bounds are for hostile ones. */
enum { BYTES_MOST = 8 << 20, STEPS_MOST = 1000000, ELEMENTS_MOST = 65536 };

bool
shell_over(struct shell *sh)
{
	return sh->bytes > BYTES_MOST || sh->steps > STEPS_MOST;
}

int
shell_refuse(struct shell *sh, const char *what)
{
	return err_at(sh->e, sh->name, sh->line, "%s: this part of the shell is not read", what);
}

const char *
shell_keep(struct shell *sh, const char *s, size_t n)
{
	sh->bytes += n + 1;
	return shell_over(sh) ? "" : mem_pool_strndup(&sh->pool, s, n);
}

/* Arrays double in the pool, so a list of n words costs at most twice its size. */
void
words_add(struct shell *sh, struct words *w, const char *s)
{
	if (w->count == w->cap) {
		int cap = w->cap ? 2 * w->cap : 8;
		const char **more;

		sh->bytes += (size_t)cap * sizeof *more;
		if (shell_over(sh))
			return;
		more = mem_pool_alloc(&sh->pool, (size_t)cap, sizeof *more);
		if (w->count)
			memcpy(more, w->item, (size_t)w->count * sizeof *more);
		w->item = more;
		w->cap = cap;
	}
	w->item[w->count++] = s;
}

const char *
words_join(struct shell *sh, const struct words *w)
{
	struct str s = { 0 };
	const char *out;

	for (int i = 0; i < w->count; i++) {
		if (i)
			str_addc(&s, ' ');
		str_adds(&s, w->item[i]);
	}
	out = shell_keep(sh, s.buf ? s.buf : "", s.len);
	str_release(&s);
	return out;
}

bool
is_hole(const char *value)
{
	return strchr(value, HOLE_OPEN) != NULL;
}

const char *
hole_of(struct shell *sh, const char *text, size_t n)
{
	struct str s = { 0 };
	const char *out;

	str_addc(&s, HOLE_OPEN);
	for (size_t i = 0; i < n; i++)
		str_addc(&s, text[i] == '\n' ? ' ' : text[i]);
	str_addc(&s, HOLE_CLOSE);
	out = shell_keep(sh, s.buf, s.len);
	str_release(&s);
	return out;
}

struct variable *
variable_find(const struct shell *sh, const char *name)
{
	for (int i = 0; i < sh->variables; i++)
		if (!strcmp(sh->variable[i].name, name))
			return &sh->variable[i];
	return NULL;
}

static struct variable *
variable_make(struct shell *sh, const char *name)
{
	struct variable *v = variable_find(sh, name);

	if (v)
		return v;
	if (sh->variables == sh->variable_cap) {
		sh->variable_cap = sh->variable_cap ? 2 * sh->variable_cap : 64;
		sh->variable =
		    mem_realloc(sh->variable, (size_t)sh->variable_cap, sizeof *sh->variable);
	}
	v = &sh->variable[sh->variables++];
	*v = (struct variable){ .name = name };
	return v;
}

void
variable_set(struct shell *sh, const char *name, const char *value)
{
	struct variable *v = variable_make(sh, name);

	v->set = true;
	v->array = false;
	v->value = (struct words){ 0 };
	words_add(sh, &v->value, value);
}

const char *
given_value(struct shell *sh, const char *name)
{
	size_t n = strlen(name);

	for (int i = sh->given.count - 1; i >= 0; i--) {
		const char *g = sh->given.item[i];

		if (strncmp(g, name, n) != 0 || g[n] != '=')
			continue;
		sh->given_used[i] = true;
		return g + n + 1;
	}
	return NULL;
}

/* NAME[i]=value. */
static int
assign_element(struct shell *sh, const struct assign *a, const char *value)
{
	struct variable *v = variable_make(sh, a->name);
	struct str joined = { 0 };
	bool known;
	int64_t i;

	if (expand_arithmetic(sh, a->subscript, &known, &i) < 0)
		return -1;
	if (!known || i < 0 || i >= ELEMENTS_MOST)
		return shell_refuse(sh, "an element of an array whose number is not known");
	while (v->value.count <= i && !shell_over(sh))
		words_add(sh, &v->value, "");
	if (shell_over(sh))
		return 0;
	if (a->append)
		str_adds(&joined, v->value.item[i]);
	str_adds(&joined, value);
	v->value.item[i] = shell_keep(sh, joined.buf ? joined.buf : "", joined.len);
	str_release(&joined);
	v->set = v->array = true;
	return 0;
}

static int
assign_array(struct shell *sh, const struct assign *a)
{
	struct variable *v = variable_find(sh, a->name);
	struct words all = { 0 };

	if (a->append && v && v->set)
		for (int i = 0; i < v->value.count; i++)
			words_add(sh, &all, v->value.item[i]);
	for (const struct word *w = a->element; w; w = w->next) {
		if (*w->text == '[' && strstr(w->text, "]="))
			return shell_refuse(sh, "an array with names");
		if (expand_fields(sh, w->text, &all) < 0)
			return -1;
	}
	v = variable_make(sh, a->name);
	v->set = v->array = true;
	v->value = all;
	return 0;
}

/* NAME=value and NAME+=value, which adds to the first element of an array. */
static int
assign_value(struct shell *sh, const struct assign *a)
{
	struct variable *v = variable_find(sh, a->name);
	const char *value, *given;
	struct str joined = { 0 };

	if (expand_value(sh, a->value, &value) < 0)
		return -1;
	if (a->subscript)
		return assign_element(sh, a, value);
	given = is_hole(value) ? given_value(sh, a->name) : NULL;
	if (given)
		value = given;
	if (a->append && v && v->set && v->value.count)
		str_adds(&joined, v->value.item[0]);
	str_adds(&joined, value);
	value = shell_keep(sh, joined.buf ? joined.buf : "", joined.len);
	str_release(&joined);
	if (a->append && v && v->set && v->array && v->value.count)
		v->value.item[0] = value;
	else
		variable_set(sh, a->name, value);
	return 0;
}

/* While filling, what has a value keeps it. */
int
shell_assign(struct shell *sh, const struct assign *a)
{
	for (; a; a = a->next) {
		const struct variable *v = variable_find(sh, a->name);

		if (sh->filling && v && v->set)
			continue;
		if ((a->array ? assign_array(sh, a) : assign_value(sh, a)) < 0)
			return -1;
	}
	return 0;
}
