/*
 * optdoc.c - the option table as sentences, as a manual page and as an option file
 *
 * All read the same rows as the parser, so help, manual and dumped configuration cannot disagree.
 * opt_text reads the output of opt_dump back to the same values, which a test checks.
 */
#include "lib/base/opt_impl.h"

#include <string.h>

const char *
opt_unit(const struct opt *o)
{
	return o->unit ? o->unit : o->type == OPT_INT || o->type == OPT_NUMBER ? "N" : "VALUE";
}

int
opt_takes(const struct opt *o)
{
	switch (o->type) {
	case OPT_INT:
	case OPT_NUMBER:
	case OPT_STRING:
	case OPT_CHOICE:
	case OPT_CONFIG:
	case OPT_COMPLETION: return 1;
	case OPT_LIST:
	case OPT_HELP: return 2;
	case OPT_NOTE: return o->def ? 1 : (int)o->max;
	default: return 0;
	}
}

void
opt_text_of(const struct opt *o, struct str *out)
{
	str_adds(out, o->help);
	if (o->type == OPT_NOTE && o->def)
		str_addf(out, " (accepted with %s, changes nothing)", o->def);
	else if (o->type == OPT_NOTE)
		str_adds(out, " (accepted, changes nothing)");
}

/* 1e15 is above any count, and stands for no bound in many rows. */
static void
add_range(const struct opt *o, struct str *out)
{
	str_addf(out, " %s", o->type == OPT_INT ? "An integer" : "A number");
	if (o->min != o->max && o->max >= 1e15)
		str_addf(out, ", at least %.12g", o->min);
	else if (o->min != o->max)
		str_addf(out, " from %.12g to %.12g", o->min, o->max);
	str_addc(out, '.');
}

void
opt_facts(const struct opt *o, struct str *out)
{
	struct str needs = { 0 };

	if (o->type == OPT_INT || o->type == OPT_NUMBER)
		add_range(o, out);
	for (const char *const *a = o->alias; a && *a; a += 2)
		str_addf(out, "%s%s is %s%s", a == o->alias ? " The word " : ", ", a[0], a[1],
		    a[2] ? "" : ".");
	if (o->def && o->type != OPT_NOTE)
		str_addf(out, " The default is %s.", o->def);
	opt_needs_text(o, &needs);
	if (needs.len)
		str_addf(out, " It %s.", needs.buf);
	str_release(&needs);
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

/* Sentences begin on lines of their own. */
static void
mdoc_facts(const struct opt *o, FILE *f)
{
	struct str facts = { 0 };
	char *at, *end;

	opt_facts(o, &facts);
	for (at = facts.buf; at && *at; at = end) {
		end = strstr(at + 1, ". ");
		end = end ? end + 1 : at + strlen(at);
		if (*end)
			*end++ = '\0';
		mdoc_text(f, at + (*at == ' '));
		fputc('\n', f);
	}
	str_release(&facts);
}

/* Full stops are added here, because help texts in the table have none. */
static void
mdoc_row(const struct opt *o, FILE *f)
{
	struct str text = { 0 };

	fputs(".It ", f);
	if (o->letter)
		fprintf(f, "Fl %c , ", o->letter);
	fprintf(f, "Fl Fl %s", o->name);
	if (o->choices)
		for (int i = 0; o->choices[i]; i++)
			fprintf(f, "%s Cm %s", i ? " |" : "", o->choices[i]);
	else if (opt_takes(o))
		fprintf(f, " Ar %s%s", opt_unit(o), opt_takes(o) > 1 ? " ..." : "");
	fputc('\n', f);
	opt_text_of(o, &text);
	str_addc(&text, '.');
	mdoc_text(f, text.buf);
	fputc('\n', f);
	mdoc_facts(o, f);
	str_release(&text);
}

/*
 * Groups become subsections, each with its own list.
 */
void
opt_mdoc(const struct opt *table, FILE *f)
{
	bool open = false;

	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++) {
		if (o->type == OPT_GROUP) {
			fprintf(f, "%s.Ss %s\n.Bl -tag -width Ds\n", open ? ".El\n" : "", o->help);
			open = true;
			continue;
		}
		if (!open)
			fputs(".Bl -tag -width Ds\n", f);
		open = true;
		mdoc_row(o, f);
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
