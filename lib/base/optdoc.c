/*
 * optdoc.c - the option table as --help, as a manual page and as an option file
 *
 * All three read the same rows as the parser, so help, manual and dumped configuration cannot
 * disagree. opt_text reads the output of opt_dump back to the same values, which a test checks.
 */
#include "lib/base/opt_impl.h"

#include <string.h>

/* "--name VALUE" as --help and the manual show it. */
static void
head(const struct opt *o, char *out, size_t cap)
{
	const char *unit = o->unit                        ? o->unit
	    : o->type == OPT_INT || o->type == OPT_NUMBER ? "N"
							  : "VALUE";
	struct str s = { 0 };

	if (o->letter)
		str_addf(&s, "-%c, ", o->letter);
	str_addf(&s, "--%s", o->name);
	if (o->type == OPT_CHOICE) {
		for (int i = 0; o->choices[i]; i++)
			str_addf(&s, "%c%s", i ? '|' : ' ', o->choices[i]);
	} else if (o->type == OPT_LIST) {
		str_addf(&s, " %s...", unit);
	} else if (o->type == OPT_INT || o->type == OPT_NUMBER || o->type == OPT_STRING ||
	    o->type == OPT_CONFIG) {
		str_addf(&s, " %s", unit);
	}
	snprintf(out, cap, "%s", s.buf);
	str_release(&s);
}

/* Texts begin after 36 columns; a longer head gets its own line. The default is in brackets. */
static void
help_row(const struct opt *o, FILE *f)
{
	char h[256];

	head(o, h, sizeof h);
	if (strlen(h) > 32)
		fprintf(f, "  %s\n  %32s  %s", h, "", o->help);
	else
		fprintf(f, "  %-32s  %s", h, o->help);
	if (o->type == OPT_NOTE && o->def)
		fprintf(f, " (accepted with %s, changes nothing)", o->def);
	else if (o->type == OPT_NOTE)
		fputs(" (accepted, changes nothing)", f);
	else if (o->def)
		fprintf(f, " [%s]", o->def);
	fputc('\n', f);
}

void
opt_help(const struct opt *table, FILE *f)
{
	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++)
		if (o->type == OPT_GROUP)
			fprintf(f, "\n%s:\n", o->help);
		else
			help_row(o, f);
}

/* One of another program's options, and what becomes of it. */
static void
help_met(const struct opt_met *m, FILE *f)
{
	static const char *const kinds[] = { [FOREIGN_NOTE] = "without effect here",
		[FOREIGN_MATHS] = "refused",
		[FOREIGN_LACKS] = "refused",
		[FOREIGN_SCOPE] = "refused" };
	const struct opt_foreign *r = m->row;

	if (r->kind == FOREIGN_ALIAS)
		fprintf(f, "  --%s: is %s here\n", r->name, r->to);
	else if (r->kind == FOREIGN_SAME)
		fprintf(
		    f, "  --%s: by value: %s; otherwise refused: %s\n", r->name, r->values, r->why);
	else
		fprintf(f, "  --%s: %s: %s\n", r->name, kinds[r->kind], r->why);
}

bool
opt_help_given(const struct opt_parse *p, FILE *f)
{
	bool any = false;

	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		struct str needs = { 0 };

		if (!o->name || !p->given[o - p->table] || o->type == OPT_HELP)
			continue;
		any = true;
		help_row(o, f);
		opt_needs_text(o, &needs);
		if (needs.len)
			fprintf(f, "  %32s  %s\n", "", needs.buf);
		str_release(&needs);
	}
	for (int i = 0; i < p->met_count; i++)
		if (p->met[i].row)
			help_met(&p->met[i], f);
	return any || p->met_count > 0;
}

/* mdoc text: lines under 80 bytes, backslashes escaped, no line starting with a control
 * character. */
static void
mdoc_text(FILE *f, const char *s)
{
	size_t column = 0;

	while (*s) {
		size_t n = strcspn(s, " ");

		if (column > 0)
			fputc(column + n > 76 ? '\n' : ' ', f);
		column = column > 0 && column + n <= 76 ? column + 1 + n : n;
		if (column == n && (*s == '.' || *s == '\''))
			fputs("\\&", f);
		for (; n > 0; n--, s++)
			if (*s == '\\')
				fputs("\\e", f);
			else
				fputc(*s, f);
		s += strspn(s, " ");
	}
}

/*
 * Groups become subsections, each with its own list. Full stops are added here, because help texts
 * in the table have none.
 */
void
opt_mdoc(const struct opt *table, FILE *f)
{
	bool open = false;

	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++) {
		const char *unit = o->unit                        ? o->unit
		    : o->type == OPT_INT || o->type == OPT_NUMBER ? "N"
								  : "VALUE";

		if (o->type == OPT_GROUP) {
			fprintf(f, "%s.Ss %s\n.Bl -tag -width Ds\n", open ? ".El\n" : "", o->help);
			open = true;
			continue;
		}
		if (!open)
			fputs(".Bl -tag -width Ds\n", f);
		open = true;
		fputs(".It ", f);
		if (o->letter)
			fprintf(f, "Fl %c , ", o->letter);
		fprintf(f, "Fl Fl %s", o->name);
		if (o->type == OPT_CHOICE)
			for (int i = 0; o->choices[i]; i++)
				fprintf(f, "%s Cm %s", i ? " |" : "", o->choices[i]);
		else if (o->type == OPT_LIST)
			fprintf(f, " Ar %s ...", unit);
		else if (o->type == OPT_INT || o->type == OPT_NUMBER || o->type == OPT_STRING ||
		    o->type == OPT_CONFIG)
			fprintf(f, " Ar %s", unit);
		fputc('\n', f);
		mdoc_text(f, o->help);
		if (o->type == OPT_NOTE && o->def)
			fprintf(f, " (accepted with %s, changes nothing).\n", o->def);
		else
			fputs(o->type == OPT_NOTE ? " (accepted, changes nothing).\n" : ".\n", f);
		if (o->def && o->type != OPT_NOTE)
			fprintf(f, "The default is %s.\n", o->def);
	}
	if (open)
		fputs(".El\n", f);
}

/*
 * Quotes the empty word and any with blanks, '#', '=', quotes or backslashes, which the reader
 * would misread. Backslash and quote are escaped.
 */
static void
dump_word(struct str *out, const char *s)
{
	if (*s && !strpbrk(s, " \t\r\v\f\"#\\=")) {
		str_addf(out, " %s", s);
		return;
	}
	str_adds(out, " \"");
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			str_addc(out, '\\');
		str_addc(out, *s);
	}
	str_addc(out, '"');
}

/* Doubles are written in the shortest form that reads back exactly. */
void
opt_dump_row(const struct opt *row, const void *cfg, struct str *out)
{
	const void *field = (const char *)cfg + row->off;
	const struct opt_list *l = field;
	const char *s;

	switch (row->type) {
	case OPT_FLAG:
	case OPT_UNFLAG:
		if (*(const bool *)field == (row->type == OPT_FLAG))
			str_addf(out, "%s\n", row->name);
		break;
	case OPT_INT:
		str_addf(out, "%s %lld\n", row->name, (long long)*(const int64_t *)field);
		break;
	case OPT_NUMBER:
		str_addf(out, "%s ", row->name);
		str_add_double(out, *(const double *)field);
		str_addc(out, '\n');
		break;
	case OPT_CHOICE:
		str_addf(out, "%s %s\n", row->name, row->choices[*(const int *)field]);
		break;
	case OPT_STRING:
		s = *(const char *const *)field;
		if (s) {
			str_adds(out, row->name);
			dump_word(out, s);
			str_addc(out, '\n');
		}
		break;
	case OPT_LIST:
		if (l->count) {
			str_adds(out, row->name);
			for (int i = 0; i < l->count; i++)
				dump_word(out, l->item[i]);
			str_addc(out, '\n');
		}
		break;
	default: break;
	}
}

/*
 * One option per line, in the order of the table. A switch that is off needs no line; one that was
 * switched off against its default does. A number that has no default is left out.
 */
void
opt_dump(const struct opt_parse *p, bool only_given, struct str *out)
{
	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		bool defaulted = o->def ||
		    (o->type != OPT_INT && o->type != OPT_NUMBER && o->type != OPT_UNFLAG);

		if (p->given[o - p->table] || (!only_given && defaulted))
			opt_dump_row(o, p->cfg, out);
	}
}
