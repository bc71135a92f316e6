/*
 * optneeds.c - settings that nothing reads in this run
 *
 * A row says which other options are read together with it. A setting whose switch is off is told
 * in one line, never silently passed over and never an error.
 */
#include "lib/base/opt_impl.h"

#include <stdlib.h>
#include <string.h>

/* A term of needs: NAME, NAME=VALUE or NAME>NUMBER. */
struct term {
	char name[64], sign, value[64];
};

/* The term at `text`; *len: its length. */
static struct term
read_term(const char *text, size_t *len)
{
	struct term t = { 0 };
	size_t name = strcspn(text, "=>|&");

	*len = strcspn(text, "|&");
	if (name >= sizeof t.name || *len - name > sizeof t.value)
		BUG("'%s' is too long", text);
	memcpy(t.name, text, name);
	if (name < *len) {
		t.sign = text[name];
		memcpy(t.value, text + name + 1, *len - name - 1);
	}
	return t;
}

static const void *
field_of(const struct opt_parse *p, const struct opt *o, const struct opt_overlay *over)
{
	if (over && o->off >= over->off && o->off < over->off + over->size)
		return (const char *)over->at + (o->off - over->off);
	return (const char *)p->cfg + o->off;
}

static double
number_of(const struct opt *o, const void *field)
{
	switch (o->type) {
	case OPT_FLAG: return *(const bool *)field;
	case OPT_UNFLAG: return !*(const bool *)field;
	case OPT_INT: return (double)*(const int64_t *)field;
	case OPT_NUMBER: return *(const double *)field;
	case OPT_CHOICE: return *(const int *)field;
	case OPT_STRING: return *(const char *const *)field != NULL;
	case OPT_LIST: return ((const struct opt_list *)field)->count;
	default: BUG("--%s holds no value", o->name);
	}
}

static bool
holds(const struct opt_parse *p, const struct term *t, const struct opt_overlay *over)
{
	const struct opt *o = opt_find(p->table, t->name);
	const void *field;

	if (!o)
		BUG("no option '%s'", t->name);
	field = field_of(p, o, over);
	if (t->sign == '=')
		return !strcmp(o->choices[*(const int *)field], t->value);
	return number_of(o, field) > (t->sign == '>' ? strtod(t->value, NULL) : 0);
}

static void
add_term(const struct term *t, const char *between, struct str *out)
{
	str_addf(out, "%s--%s", out->len ? between : "needs ", t->name);
	if (t->sign == '=')
		str_addf(out, " %s", t->value);
	else if (t->sign == '>')
		str_addf(out, " above %s", t->value);
}

/* What of needs is not so: "needs --a or --b"; nothing where all is. */
static void
lacking(
    const struct opt_parse *p, const char *needs, const struct opt_overlay *over, struct str *out)
{
	size_t len;

	for (const char *at = needs, *group = needs; *group; at = group) {
		bool any = false, first = true;

		for (;; at += len + 1) {
			struct term t = read_term(at, &len);

			any = any || holds(p, &t, over);
			if (at[len] != '|')
				break;
		}
		for (at = group; !any; at += len + 1, first = false) {
			struct term t = read_term(at, &len);

			add_term(&t, first ? " and " : " or ", out);
			if (at[len] != '|')
				break;
		}
		group += strcspn(group, "&");
		group += *group == '&';
	}
}

void
opt_needs_text(const struct opt *o, struct str *out)
{
	struct str s = { 0 };
	size_t len;
	char before = '&';

	for (const char *at = o->needs; at && *at; at += len + (at[len] != '\0')) {
		struct term t = read_term(at, &len);

		add_term(&t, before == '&' ? " and " : " or ", &s);
		before = at[len];
	}
	str_adds(out, s.len ? s.buf : "");
	str_release(&s);
}

/* True for what would be so without the option. */
static bool
is_default(const struct opt *o, const void *field)
{
	double v;
	const char *s;

	switch (o->type) {
	case OPT_INT:
	case OPT_NUMBER: return o->def && opt_read_number(o->def, &v) && v == number_of(o, field);
	case OPT_CHOICE: return o->def && !strcmp(o->choices[*(const int *)field], o->def);
	case OPT_STRING: s = *(const char *const *)field; return o->def && s && !strcmp(s, o->def);
	default: return false;
	}
}

void
opt_unread(const struct opt_parse *p, const struct opt_overlay *over, struct str *notes)
{
	struct opt_errors *found = p->errors;
	struct opt_parse out = { 0 };
	struct str all = { 0 }, why = { 0 };
	size_t rows = 0;

	while (p->table[rows].type != OPT_END_TYPE)
		rows++;
	found->unread = mem_pool_alloc(&found->pool, rows + 1, sizeof *found->unread);
	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		if (!o->needs || !p->given[o - p->table] ||
		    is_default(o, (const char *)p->cfg + o->off))
			continue;
		str_clear(&why);
		lacking(p, o->needs, over, &why);
		if (!why.len)
			continue;
		found->unread[o - p->table] = mem_pool_strndup(&found->pool, why.buf, why.len);
		opt_meet(
		    &out, &(struct opt_met){ .name = o->name, .why = found->unread[o - p->table] });
	}
	opt_list_met(&out, 0, &all);
	if (all.len)
		str_addf(notes, "read by nothing in this run: %s\n", all.buf);
	free(out.met);
	str_release(&all);
	str_release(&why);
}
