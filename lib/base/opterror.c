/*
 * opterror.c - everything that is wrong with a command line, in one answer
 *
 * Neither parsing nor the rules between options end at an error, so that a script is mended in one
 * round. What follows from an error alone is no second one: an option that an error concerns keeps
 * its default, and rules about it are silent.
 */
#include "lib/base/opt_impl.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 40, LONG = 7000 };

static void
append(const struct opt_parse *p, struct opt_error error)
{
	struct opt_errors *l = p->errors;

	l->item = mem_realloc(l->item, (size_t)l->count + 1, sizeof *l->item);
	l->item[l->count++] = error;
}

/* The option's value is not to be relied on. */
static void
spoil(const struct opt_parse *p, const struct opt *o)
{
	if (o)
		p->errors->bad[o - p->table] = true;
}

void
opt_fail(struct opt_parse *p, const struct opt *o, const char *fmt, ...)
{
	char text[sizeof(struct err)];
	struct str line = { 0 };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	spoil(p, o);
	str_addf(&line, "%s%s", p->where, text);
	append(p,
	    (struct opt_error){
		.place = p->at, .text = mem_pool_strndup(&p->errors->pool, line.buf, line.len) });
	str_release(&line);
}

void
opt_refuse(struct opt_parse *p, const struct opt_foreign *f)
{
	append(p, (struct opt_error){ .place = p->at, .why = f->why, .text = f->name });
}

void
opt_needed(const struct opt_parse *p, const char *name, const char *other)
{
	if (opt_bad(p, name))
		return;
	spoil(p, opt_find(p->table, name));
	append(p,
	    (struct opt_error){ .place = INT32_MAX, .needed = true, .text = name, .other = other });
}

/* --- suggestions ------------------------------------------------------------------------------ */

/* Levenshtein distance, for "did you mean"; 1000 where the lengths alone make it `most` or more. */
static int
distance(const char *a, const char *b, int most)
{
	int row[128], n = (int)strlen(b), m = (int)strlen(a);

	if (n > 126 || m > 126 || n - m >= most || m - n >= most)
		return 1000;
	for (int j = 0; j <= n; j++)
		row[j] = j;
	for (int i = 1; a[i - 1]; i++) {
		int diag = row[0];

		row[0] = i;
		for (int j = 1; j <= n; j++) {
			int best = diag + (a[i - 1] != b[j - 1]);

			diag = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

/* Three edits at most: a more distant suggestion confuses more than it helps. Of other programs'
 * names, which are many, one edit for each three letters. */
static const char *
nearest(const struct opt_parse *p, const char *name)
{
	const char *near = NULL;
	int best = 4, third = (int)strlen(name) / 3 + 1;

	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		int d = o->name ? distance(name, o->name, best) : 1000;

		if (d < best) {
			best = d;
			near = o->name;
		}
	}
	if (third < best)
		best = near ? best : third;
	for (int i = 0; p->foreign && i < p->foreign->count; i++) {
		int d = distance(name, p->foreign->row[i].name, best);

		if (d < best) {
			best = d;
			near = p->foreign->row[i].name;
		}
	}
	return near;
}

/* The shortest name that begins so. */
static const char *
longer(const struct opt_parse *p, const char *name)
{
	size_t n = strlen(name);
	const char *best = NULL;

	for (const struct opt *o = p->table; n > 2 && o->type != OPT_END_TYPE; o++)
		if (o->name && !strncmp(o->name, name, n) &&
		    (!best || strlen(o->name) < strlen(best)))
			best = o->name;
	return best;
}

static const char *
other_word(const struct opt_parse *p, const char *name)
{
	const struct opt_word *w = p->foreign ? p->foreign->words : NULL;

	for (; w && w->word; w++)
		if (opt_same_name(w->word, name, true))
			return w->ours;
	return NULL;
}

void
opt_unknown(struct opt_parse *p, const char *name)
{
	const char *ours = other_word(p, name);
	const char *near = ours ? ours : nearest(p, name);
	char option[64] = "";

	if (!near)
		near = longer(p, name);
	/* What was meant is an option, perhaps with a value. */
	if (near)
		snprintf(option, sizeof option, "%.*s", (int)strcspn(near, " "), near);
	if (ours)
		opt_fail(p, opt_find(p->table, option), "unknown option '--%s'; here it is '--%s'",
		    name, ours);
	else if (near)
		opt_fail(p, opt_find(p->table, option),
		    "unknown option '--%s'; the nearest is '--%s'", name, near);
	else
		opt_fail(p, NULL, "unknown option '--%s'; --help lists the options", name);
}

/* --- rules between options -------------------------------------------------------------------- */

/* The next option of the table that the text names; *at moves to its end. NULL: no more. */
static const struct opt *
named(const struct opt_parse *p, const char **at)
{
	char name[80];

	while ((*at = strstr(*at, "--"))) {
		size_t n = 0;
		const struct opt *o;

		*at += 2;
		while (n + 1 < sizeof name && (isalnum((unsigned char)(*at)[n]) || (*at)[n] == '-'))
			n++;
		snprintf(name, sizeof name, "%.*s", (int)n, *at);
		*at += n;
		o = opt_find(p->table, name);
		if (o)
			return o;
	}
	return NULL;
}

int
opt_rule(const struct opt_parse *p, int rc, const struct err *e)
{
	const struct opt *o;
	const char *at = e->msg;
	int place = 0;

	if (rc >= 0)
		return rc;
	while ((o = named(p, &at))) {
		if (p->errors->bad[o - p->table])
			return rc;
		if (!place && p->given[o - p->table])
			place = p->place[o - p->table];
	}
	append(p,
	    (struct opt_error){ .place = place ? place : INT32_MAX,
		.text = mem_pool_strndup(&p->errors->pool, e->msg, strlen(e->msg)) });
	return rc;
}

bool
opt_bad(const struct opt_parse *p, const char *name)
{
	const struct opt *o = opt_find(p->table, name);

	if (!o)
		BUG("no option '%s'", name);
	return p->errors->bad[o - p->table];
}

bool
opt_bad_group(const struct opt_parse *p, const char *heading)
{
	bool in = false;

	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		if (o->type == OPT_GROUP)
			in = !strcmp(o->help, heading);
		if (in && p->errors->bad[o - p->table])
			return true;
	}
	return false;
}

/* --- the answer ------------------------------------------------------------------------------- */

/* Sorting is stable: errors of one place are in the order of the checks. */
static struct opt_error *
in_order(const struct opt_errors *l)
{
	struct opt_error *s = mem_alloc((size_t)l->count, sizeof *s);

	for (int i = 0; i < l->count; i++) {
		int k = i;

		for (; k > 0 && s[k - 1].place > l->item[i].place; k--)
			s[k] = s[k - 1];
		s[k] = l->item[i];
	}
	return s;
}

/* Everything that is needed, as "a, b (or c)": what replaces several is said once, after the
 * last of them. */
static void
add_needed(const struct opt_error *s, int count, struct str *out)
{
	const char *other = NULL;
	int n = 0;

	for (int i = 0; i < count; i++) {
		if (!s[i].needed)
			continue;
		if (other && (!s[i].other || strcmp(other, s[i].other)))
			str_addf(out, " (%s)", other);
		str_addf(out, "%s--%s", n++ ? ", " : "", s[i].text);
		other = s[i].other;
	}
	if (other)
		str_addf(out, " (%s)", other);
}

/* All refused options of one reason: "--a, --b: why". */
static void
add_refused(const struct opt_error *s, int count, const char *why, struct str *out)
{
	int n = 0;

	for (int i = 0; i < count; i++) {
		bool again = false;

		if (!s[i].why || strcmp(s[i].why, why))
			continue;
		for (int k = 0; k < i; k++)
			again = again || (s[k].why && !strcmp(s[k].text, s[i].text));
		if (!again)
			str_addf(out, "%s--%s", n++ ? ", " : "", s[i].text);
	}
	str_addf(out, ": %s", why);
}

/* Whether the line of the earlier error tells x too. */
static bool
is_told(const struct opt_error *x, const struct opt_error *earlier)
{
	if (x->needed || earlier->needed)
		return x->needed && earlier->needed;
	if (x->why || earlier->why)
		return x->why && earlier->why && !strcmp(x->why, earlier->why);
	return !strcmp(x->text, earlier->text);
}

/* The line of the error i, or nothing where an earlier one has told it. */
static void
add_line(const struct opt_error *s, int count, int i, struct str *out)
{
	const struct opt_error *x = &s[i];
	bool several = false;

	for (int k = 0; k < i; k++)
		if (is_told(x, &s[k]))
			return;
	for (int k = i + 1; k < count; k++)
		several = several || s[k].needed;
	if (x->why) {
		add_refused(s, count, x->why, out);
	} else if (!x->needed) {
		str_adds(out, x->text);
	} else if (several) {
		str_adds(out, "needed: ");
		add_needed(s, count, out);
	} else {
		str_addf(out, "--%s: is needed", x->text);
		if (x->other)
			str_addf(out, " (%s)", x->other);
	}
}

int
opt_answer(const struct opt_parse *p, struct err *e)
{
	struct opt_error *s = in_order(p->errors);
	struct str lines = { 0 }, line = { 0 };
	int count = p->errors->count, n = 0, shown = 0;

	for (int i = 0; i < count; i++) {
		str_clear(&line);
		add_line(s, count, i, &line);
		if (!line.len)
			continue;
		n++;
		if (shown == LINES || lines.len + line.len > LONG)
			continue;
		str_addf(&lines, "%c%s", ERR_LINE, line.buf);
		shown++;
	}
	if (n == 1)
		err_set(e, "%s", lines.buf + 1);
	else if (n > 0 && n == shown)
		err_set(e, "%d options cannot be used as given:%s", n, lines.buf);
	else if (n > 0)
		err_set(e, "%d options cannot be used as given:%s%cand %d more", n, lines.buf,
		    ERR_LINE, n - shown);
	free(s);
	str_release(&lines);
	str_release(&line);
	return n ? -1 : 0;
}

void
opt_forget(const struct opt_parse *p)
{
	size_t rows = 0;

	while (p->table[rows].type != OPT_END_TYPE)
		rows++;
	p->errors->count = 0;
	memset(p->errors->bad, 0, rows * sizeof *p->errors->bad);
}
