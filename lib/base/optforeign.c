/*
 * optforeign.c - options of other programs: notes, aliases, and what is refused
 *
 * A launch script of another program is data: each of its names has a row that says what becomes of
 * it. All options without effect make one note.
 */
#include "lib/base/opt_impl.h"

#include <stdlib.h>
#include <string.h>

enum { TO_WORDS = 16 };

static int
compare(const void *key, const void *row)
{
	return strcmp(key, ((const struct opt_foreign *)row)->name);
}

const struct opt_foreign *
opt_foreign_find(const struct opt_foreigners *f, const char *name)
{
	char key[80];
	size_t n = strlen(name);

	if (!f || n >= sizeof key)
		return NULL;
	for (size_t i = 0; i <= n; i++)
		key[i] = name[i] == '_' ? '-' : name[i];
	return bsearch(key, f->row, (size_t)f->count, sizeof *f->row, compare);
}

void
opt_meet(struct opt_parse *p, const struct opt_met *m)
{
	p->met = mem_realloc(p->met, (size_t)p->met_count + 1, sizeof *p->met);
	p->met[p->met_count] = *m;
	p->met[p->met_count++].place = p->at;
}

bool
opt_foreign_given(const struct opt_parse *p, const char *name)
{
	const struct opt_foreign *row = opt_foreign_find(p->foreign, name);

	if (!row)
		BUG("no option '%s' of another program", name);
	for (int i = 0; i < p->met_count; i++)
		if (p->met[i].row == row)
			return true;
	return false;
}

/* The words as one, in the pool. */
static char *
joined(struct opt_parse *p, int count, char *const *word)
{
	struct str s = { 0 };
	char *text;

	for (int i = 0; i < count; i++)
		str_addf(&s, "%s%s", i ? " " : "", word[i]);
	text = mem_pool_strndup(&p->pool, s.len ? s.buf : "", s.len);
	str_release(&s);
	return text;
}

/* --- aliases ---------------------------------------------------------------------------------- */

/* Splits `to` into words and puts what was given for $. Returns the number of words. */
static int
replace(struct opt_parse *p, const char *to, size_t len, const char *value, char **out)
{
	int n = 0;

	for (size_t i = 0; i < len; i += to[i] == ' ') {
		size_t w = strcspn(to + i, " ");

		if (w > len - i)
			w = len - i;
		if (n == TO_WORDS)
			BUG("'%s' has too many words", to);
		out[n++] = w == 1 && to[i] == '$' ? mem_pool_strndup(&p->pool, value, strlen(value))
						  : mem_pool_strndup(&p->pool, to + i, w);
		i += w;
	}
	return n;
}

/* Applies the options of `to`, whose errors name the alias. */
static void
expand(
    struct opt_parse *p, const struct opt_foreign *f, const char *to, size_t len, const char *value)
{
	char *word[TO_WORDS], *where;
	const char *outer = p->where;
	struct str s = { 0 };
	int n = replace(p, to, len, value ? value : "", word), before = p->errors->count;

	str_addf(&s, "%s--%s: ", outer, f->name);
	where = mem_pool_strndup(&p->pool, s.buf, s.len);
	str_release(&s);
	p->where = where;
	for (int i = 0; i < n;) {
		const struct opt *o = opt_find(p->table, word[i] + 2);

		if (!o)
			BUG("--%s: no option '%s'", f->name, word[i]);
		i += 1 + opt_apply(p, o, NULL, n - i - 1, word + i + 1);
	}
	p->where = outer;
	opt_meet(p,
	    &(struct opt_met){
		.row = f, .name = f->name, .value = value, .to = joined(p, n, word) });
	if (p->errors->count == before)
		str_addf(&p->notes, "--%s%s%s: is %s here\n", f->name, value ? " " : "",
		    value ? value : "", p->met[p->met_count - 1].to);
}

/* --- by value --------------------------------------------------------------------------------- */

/* As a number where both are numbers; a star at the front or the end is any text. */
static bool
matches(const char *pattern, size_t len, const char *value)
{
	char text[128];
	double a, b;
	size_t n = strlen(value);
	bool front = len > 0 && pattern[0] == '*', back = len > 1 && pattern[len - 1] == '*';

	if (len >= sizeof text)
		return false;
	memcpy(text, pattern + front, len - front - back);
	text[len - front - back] = '\0';
	len = strlen(text);
	if (front && back)
		return strstr(value, text);
	if (front || back)
		return n >= len && !strncmp(front ? value + n - len : value, text, len);
	if (opt_read_number(text, &a) && opt_read_number(value, &b))
		return a == b;
	return opt_same_name(text, value, true);
}

/* The values that pass, "0, 1". */
static void
passing(const char *values, struct str *out)
{
	int n = 0;

	for (const char *at = values; *at; at += strspn(at, "; ")) {
		size_t len = strcspn(at, ";"), v = strcspn(at, ";=");

		if (at[0] == '@')
			str_addf(out, "%sthe value of --%.*s", n++ ? ", " : "", (int)v - 1, at + 1);
		else if (at[0] != '*')
			str_addf(out, "%s%.*s", n++ ? ", " : "", (int)v, at);
		at += len;
	}
}

static void
refuse_value(struct opt_parse *p, const struct opt_foreign *f, const char *value)
{
	struct str s = { 0 };

	passing(f->values, &s);
	opt_fail(p, NULL, "--%s %s: %s%s%s", f->name, value, f->why, s.len ? "; accepted: " : "",
	    s.len ? s.buf : "");
	str_release(&s);
}

/* A note, an alias, or an error, as the first of the values says that matches. */
static void
by_value(struct opt_parse *p, const struct opt_foreign *f, const char *value)
{
	struct opt_met m = {
		.row = f, .name = f->name, .why = "has this value here", .value = value
	};

	for (const char *at = f->values; *at; at += strspn(at, "; ")) {
		size_t len = strcspn(at, ";"), v = strcspn(at, ";=");

		if (at[0] == '@') {
			m.same = mem_pool_strndup(&p->pool, at + 1, v - 1);
			opt_meet(p, &m);
			return;
		}
		if (matches(at, v, value)) {
			if (v < len)
				expand(p, f, at + v + 1, len - v - 1, value);
			else
				opt_meet(p, &m);
			return;
		}
		at += len;
	}
	refuse_value(p, f, value);
}

/* An option that must have the value of another, which is known now. */
static void
check_same(struct opt_parse *p, struct opt_met *m)
{
	const struct opt *o = opt_find(p->table, m->same);
	struct str line = { 0 };
	size_t name = strlen(m->same) + 1;
	const char *where = p->where;

	opt_dump_row(o, p->cfg, &line);
	if (line.len > name)
		line.buf[line.len - 1] = '\0';
	if (!p->errors->bad[o - p->table] &&
	    !(line.len > name && matches(line.buf + name, strlen(line.buf + name), m->value))) {
		p->at = m->place;
		p->where = "";
		refuse_value(p, m->row, m->value);
		p->where = where;
		m->why = NULL;
	}
	str_release(&line);
}

/* The words that belong to the option: as many as its program takes, where there are so many. */
static int
taken(const struct opt_parse *p, const struct opt_foreign *f, int count, char *const *word)
{
	int n = opt_values(count, word);

	switch (f->words) {
	case 0: return 0;
	case 1: return count > 0 && opt_is_value(p, word[0]);
	case OPT_MAYBE: return n > 0;
	default: return n;
	}
}

int
opt_foreign_apply(struct opt_parse *p, const struct opt_foreign *f, const char *inline_value,
    int count, char **word)
{
	int n = inline_value ? 0 : taken(p, f, count, word);
	bool refused = f->kind > FOREIGN_SAME;

	if (refused)
		opt_refuse(p, f);
	else if (f->words == 0 && inline_value)
		opt_fail(p, NULL, "--%s: takes no value", f->name);
	else if (f->words == 1 && !inline_value && !n)
		opt_fail(p, NULL, "--%s: needs a value", f->name);
	else if (f->kind == FOREIGN_ALIAS)
		expand(p, f, f->to, strlen(f->to),
		    inline_value ? inline_value
			: n      ? word[0]
				 : NULL);
	else if (f->kind == FOREIGN_SAME)
		by_value(p, f, inline_value ? inline_value : joined(p, n, word));
	if (refused || f->kind == FOREIGN_NOTE)
		opt_meet(p,
		    &(struct opt_met){ .row = f, .name = f->name, .why = refused ? NULL : f->why });
	return n;
}

/* --- notes ------------------------------------------------------------------------------------ */

/* An option that is given twice is told once. */
static bool
told(const struct opt_parse *p, int i)
{
	for (int k = 0; k < i; k++)
		if (p->met[k].why && !strcmp(p->met[k].name, p->met[i].name))
			return true;
	return false;
}

/* "--a, --b (why)" of all options of the reason of the one at i, unless an earlier one has it. */
static void
add_reason(const struct opt_parse *p, int from, int i, struct str *out)
{
	const char *why = p->met[i].why;

	for (int k = from; k < i; k++)
		if (p->met[k].why && !strcmp(p->met[k].why, why) && !told(p, k))
			return;
	for (int k = i; k < p->met_count; k++)
		if (p->met[k].why && !strcmp(p->met[k].why, why) && !told(p, k))
			str_addf(out, "%s--%s", out->len ? ", " : "", p->met[k].name);
	str_addf(out, " (%s)", why);
}

void
opt_list_met(const struct opt_parse *p, int from, struct str *out)
{
	for (int i = from; i < p->met_count; i++)
		if (p->met[i].why && !told(p, i))
			add_reason(p, from, i, out);
}

void
opt_foreign_end(struct opt_parse *p)
{
	struct str all = { 0 };

	for (int i = p->met_noted; i < p->met_count; i++)
		if (p->met[i].same)
			check_same(p, &p->met[i]);
	opt_list_met(p, p->met_noted, &all);
	if (all.len)
		str_addf(&p->notes, "without effect here: %s\n", all.buf);
	p->met_noted = p->met_count;
	str_release(&all);
}
