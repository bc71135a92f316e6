/*
 * opthelp.c - the option table on a terminal: one screen, a group, one option, or everything
 *
 * The first answer to --help is one screen. What it leaves out is one word away: a group by the
 * beginning of its heading, an option by its name or another program's name for it. Lines have at
 * most 80 columns.
 */
#include "lib/base/opt_impl.h"

#include <ctype.h>
#include <string.h>

/* Texts begin after 36 columns; a longer head gets its own line. */
enum { HEAD = 2, TEXT = 36, SCREEN = 40 };

/* Where a table has rows before its first heading. */
static const char unnamed[] = "Options";

/* "-o, --name VALUE". */
static void
add_head(const struct opt *o, struct str *out)
{
	if (o->letter)
		str_addf(out, "-%c, ", o->letter);
	str_addf(out, "--%s", o->name);
	if (o->choices)
		for (int i = 0; o->choices[i]; i++)
			str_addf(out, "%c%s", i ? '|' : ' ', o->choices[i]);
	else if (opt_takes(o))
		str_addf(out, " %s%s", opt_unit(o), opt_takes(o) > 1 ? "..." : "");
}

/* One row; text is what is said of it. */
static void
add_row(const struct opt *o, const char *text, struct str *out)
{
	struct str head = { 0 };

	add_head(o, &head);
	str_addf(out, "%*s", HEAD, "");
	str_add_wrapped(out, head.buf, HEAD, HEAD + 2);
	if (head.len > TEXT - HEAD - 2)
		str_addf(out, "\n%*s", TEXT, "");
	else
		str_addf(out, "%*s", (int)(TEXT - HEAD - head.len), "");
	str_add_wrapped(out, text, TEXT, TEXT);
	str_addc(out, '\n');
	str_release(&head);
}

/* Its text and its default, in brackets. */
static void
add_listed(const struct opt *o, struct str *out)
{
	struct str text = { 0 };

	opt_text_of(o, &text);
	if (o->def && o->type != OPT_NOTE)
		str_addf(&text, " [%s]", o->def);
	add_row(o, text.buf, out);
	str_release(&text);
}

/* What comes before the first colon or semicolon of its text. */
static void
add_brief(const struct opt *o, struct str *out)
{
	struct str text = { 0 };

	str_add(&text, o->help, strcspn(o->help, ":;"));
	add_row(o, text.buf, out);
	str_release(&text);
}

/* --- groups ----------------------------------------------------------------------------------- */

/* The group that begins at *o: its heading, its rows and their number; *o moves to the next. False
 * at the end of the table. */
struct group {
	const char *heading;
	const struct opt *row;
	int count;
};

static bool
next_group(const struct opt **o, struct group *g)
{
	if ((*o)->type == OPT_END_TYPE)
		return false;
	*g = (struct group){ .heading = unnamed };
	if ((*o)->type == OPT_GROUP)
		g->heading = (*o)++->help;
	g->row = *o;
	while ((*o)->type != OPT_GROUP && (*o)->type != OPT_END_TYPE)
		++*o, g->count++;
	return true;
}

static void
add_group(const struct group *g, struct str *out)
{
	str_addf(out, "\n%s:\n", g->heading);
	for (int i = 0; i < g->count; i++)
		add_listed(&g->row[i], out);
}

static void
add_all(const struct opt *table, struct str *out)
{
	struct group g;

	while (next_group(&table, &g))
		add_group(&g, out);
}

/* True when the heading begins with the word, in upper or lower case, with '-' for a blank. */
static bool
begins(const char *heading, const char *word)
{
	for (; *word; heading++, word++) {
		int x = *heading == ' ' ? '-' : tolower((unsigned char)*heading);
		int y = *word == ' ' || *word == '_' ? '-' : tolower((unsigned char)*word);

		if (x != y)
			return false;
	}
	return true;
}

/* The groups that a word means; returns their number. */
static int
add_groups(const struct opt *table, const char *word, struct str *out)
{
	struct group g;
	int n = 0;

	while (next_group(&table, &g))
		if (begins(g.heading, word)) {
			add_group(&g, out);
			n++;
		}
	return n;
}

/* --- one screen ------------------------------------------------------------------------------- */

static int
lines(const struct str *s)
{
	int n = 0;

	for (size_t i = 0; i < s->len; i++)
		n += s->buf[i] == '\n';
	return n;
}

static void
add_common(const struct opt *table, const char *names, struct str *out)
{
	char name[80];

	str_adds(out, "\nOptions that most runs have:\n");
	for (size_t n; *names; names += n + (names[n] == ' ')) {
		const struct opt *o;

		n = strcspn(names, " ");
		snprintf(name, sizeof name, "%.*s", (int)n, names);
		o = opt_find(table, name);
		if (!o)
			BUG("no option '%s'", name);
		add_brief(o, out);
	}
}

/* The common options, what the other groups are called, and how to see them. */
static void
add_screen(const struct opt *table, const char *common, struct str *out)
{
	struct str text = { 0 };
	struct group g;
	int all = 0;

	if (common)
		add_common(table, common, out);
	str_adds(out, "\nGroups of options, and how many are in each:\n");
	while (next_group(&table, &g)) {
		str_addf(&text, "%s%.*s %d", all ? "; " : "", (int)strcspn(g.heading, ";"),
		    g.heading, g.count);
		all += g.count;
	}
	str_addf(out, "%*s", HEAD, "");
	str_add_wrapped(out, text.buf, HEAD, HEAD);
	str_addf(out,
	    "\n\n--help GROUP (its first letters do) lists a group, --help OPTION explains "
	    "one\noption, --help all lists all %d options.\n",
	    all);
	str_release(&text);
}

void
opt_help(const struct opt *table, const char *common, int before, struct str *out)
{
	struct str all = { 0 };

	add_all(table, &all);
	if (before + lines(&all) <= SCREEN)
		str_add(out, all.buf, all.len);
	else
		add_screen(table, common, out);
	str_release(&all);
}

/* --- one option ------------------------------------------------------------------------------- */

/* Other programs' names for an option, with a word between the first and the others. */
static void
add_name(const char *name, struct str *out)
{
	str_addf(out, "%s--%s", out->len ? ", " : "", name);
}

/* True when the options `to` are the one of this name alone, with what was given. */
static bool
stands_for(const char *to, const struct opt *o)
{
	size_t n = strlen(o->name);

	return !strncmp(to, "--", 2) && !strncmp(to + 2, o->name, n) &&
	    (!to[n + 2] || !strcmp(to + n + 2, " $"));
}

/* The names that it replaces in other programs; nothing without. */
static void
add_replaced(const struct opt *o, const struct opt_foreigners *f, struct str *out)
{
	struct str names = { 0 };

	for (int i = 0; f && i < f->count; i++)
		if (f->row[i].kind == FOREIGN_ALIAS && stands_for(f->row[i].to, o))
			add_name(f->row[i].name, &names);
	for (const struct opt_word *w = f ? f->words : NULL; w && w->word; w++)
		if (!strcmp(w->ours, o->name))
			add_name(w->word, &names);
	if (names.len)
		str_addf(out, " Other programs call it %s.", names.buf);
	str_release(&names);
}

/* All that is known of one option; f may be NULL. */
static void
add_full(const struct opt *o, const struct opt_foreigners *f, struct str *out)
{
	struct str head = { 0 }, text = { 0 };

	add_head(o, &head);
	if (!opt_takes(o))
		str_adds(&head, " (a switch)");
	str_addf(out, "%*s", HEAD, "");
	str_add_wrapped(out, head.buf, HEAD, HEAD + 2);
	str_addf(out, "\n%*s", HEAD + 4, "");
	opt_text_of(o, &text);
	str_addc(&text, '.');
	opt_facts(o, &text);
	add_replaced(o, f, &text);
	str_add_wrapped(out, text.buf, HEAD + 4, HEAD + 4);
	str_addc(out, '\n');
	str_release(&head);
	str_release(&text);
}

/* One of another program's options, and what becomes of it. */
static void
add_foreign(const struct opt_foreign *r, struct str *out)
{
	static const char *const kinds[] = { [FOREIGN_NOTE] = "without effect here",
		[FOREIGN_MATHS] = "refused",
		[FOREIGN_LACKS] = "refused",
		[FOREIGN_SCOPE] = "refused" };
	struct str text = { 0 };

	if (r->kind == FOREIGN_ALIAS)
		str_addf(&text, "--%s: is %s here", r->name, r->to);
	else if (r->kind == FOREIGN_SAME)
		str_addf(
		    &text, "--%s: by value: %s; otherwise refused: %s", r->name, r->values, r->why);
	else
		str_addf(&text, "--%s: %s: %s", r->name, kinds[r->kind], r->why);
	str_addf(out, "%*s", HEAD, "");
	str_add_wrapped(out, text.buf, HEAD, HEAD + 4);
	str_addc(out, '\n');
	str_release(&text);
}

/* Options whose names contain the word; returns their number. */
static int
add_containing(const struct opt *table, const char *word, struct str *out)
{
	int n = 0;

	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++)
		if (o->name && strstr(o->name, word)) {
			add_listed(o, out);
			n++;
		}
	return n;
}

/* --- what was asked --------------------------------------------------------------------------- */

/* An option of this very name is told of alone: "model" is one, and "Model" and "mod" the group. */
bool
opt_help_word(
    const struct opt *table, const struct opt_foreigners *f, const char *word, struct str *out)
{
	const struct opt *o = opt_find(table, word);
	const struct opt_foreign *r = o ? NULL : opt_foreign_find(f, word);
	size_t before = out->len;

	if (!strcmp(word, "all"))
		add_all(table, out);
	else if (o)
		add_full(o, f, out);
	else if (r)
		add_foreign(r, out);
	else if (!add_groups(table, word, out))
		add_containing(table, word, out);
	return out->len > before;
}

int
opt_help_asked(const struct opt_parse *p, struct str *out, struct err *e)
{
	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++)
		if (o->name && p->given[o - p->table] && o->type != OPT_HELP)
			add_full(o, p->foreign, out);
	for (int i = 0; i < p->met_count; i++)
		if (p->met[i].row)
			add_foreign(p->met[i].row, out);
	for (int i = 0; i < p->topic.count; i++)
		if (!opt_help_word(p->table, p->foreign, p->topic.item[i], out))
			return err_set(e,
			    "--help %s: no option and no group is called so; --help lists the "
			    "groups",
			    p->topic.item[i]);
	return out->len > 0;
}
