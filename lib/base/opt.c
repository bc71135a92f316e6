/*
 * opt.c - parsing by the option table
 *
 * One row of a table gives the name, the type, the range, the default and the text of an option,
 * and the place of its value in the caller's struct. The command line and option files go through
 * the same code, so a word means the same in both; a later word wins over an earlier one, and the
 * command line over any file. Options of Megatron-LM that this suite lacks are known by name and
 * reported together, so that a launch script is ported in one pass.
 */
#include "lib/base/io.h"
#include "lib/base/opt.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* '_' equals '-' in names. */
static bool
same_name(const char *a, const char *b)
{
	for (; *a && *b; a++, b++)
		if ((*a == '_' ? '-' : *a) != (*b == '_' ? '-' : *b))
			return false;
	return *a == *b;
}

/*
 * Tables have a few hundred rows and are searched once per word, so a linear scan is enough. Groups
 * have no name. NULL when no row matches.
 */
static const struct opt *
find(const struct opt *table, const char *name)
{
	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++)
		if (o->name && same_name(o->name, name))
			return o;
	return NULL;
}

/* Rows without a letter hold 0, which no word contains. */
static const struct opt *
find_letter(const struct opt *table, char letter)
{
	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++)
		if (letter && o->letter == letter)
			return o;
	return NULL;
}

/*
 * Decides whether "-x5" is legal. It is not for lists: their values are separate words.
 */
static bool
takes_value(const struct opt *o)
{
	return o->type == OPT_INT || o->type == OPT_NUMBER || o->type == OPT_STRING ||
	    o->type == OPT_CHOICE || o->type == OPT_CONFIG;
}

/* Levenshtein distance, for "did you mean". */
static int
distance(const char *a, const char *b)
{
	int row[128], n = (int)strlen(b);

	if (n > 126 || strlen(a) > 126)
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

/* Three edits at most: a more distant suggestion confuses more than it helps. Returns -1. */
static int
unknown(const struct opt_parse *p, const char *name, struct err *e)
{
	const char *near = NULL;
	int best = 4;

	for (const struct opt *o = p->table; o->type != OPT_END_TYPE; o++) {
		int d = o->name ? distance(name, o->name) : 1000;

		if (d < best) {
			best = d;
			near = o->name;
		}
	}
	if (near)
		return err_set(e, "unknown option '--%s'; the nearest is '--%s'", name, near);
	return err_set(e, "unknown option '--%s'; --help lists the options", name);
}

/*
 * min == max means that the row has no range. Bounds are doubles, exact up to 2^53, far above any
 * bound.
 */
static int
check_range(const struct opt *o, double v, const char *text, struct err *e)
{
	if (o->min == o->max || (v >= o->min && v <= o->max))
		return 0;
	if (isinf(o->max))
		return err_set(e, "--%s %s: must be at least %.12g", o->name, text, o->min);
	return err_set(e, "--%s %s: must be from %.12g to %.12g", o->name, text, o->min, o->max);
}

/* Lists the legal values, since there are never many. Returns -1. */
static int
bad_choice(const struct opt *o, const char *text, struct err *e)
{
	struct str s = { 0 };

	for (int i = 0; o->choices[i]; i++)
		str_addf(&s, "%s%s", i ? ", " : "", o->choices[i]);
	err_set(e, "--%s %s: must be one of %s", o->name, text, s.buf);
	str_release(&s);
	return -1;
}

/* Stores one scalar value. Strings are borrowed: the caller keeps them valid as long as p. */
static int
store(struct opt_parse *p, const struct opt *o, const char *text, struct err *e)
{
	char *field = (char *)p->cfg + o->off, *end;

	errno = 0;
	switch (o->type) {
	case OPT_FLAG: *(bool *)field = true; return 0;
	case OPT_UNFLAG: *(bool *)field = false; return 0;
	case OPT_INT: {
		long long v = strtoll(text, &end, 10);

		if (end == text || *end || errno)
			return err_set(e, "--%s %s: not an integer", o->name, text);
		*(int64_t *)(void *)field = v;
		return check_range(o, (double)v, text, e);
	}
	case OPT_NUMBER: {
		double v = strtod(text, &end);

		if (end == text || *end || !isfinite(v))
			return err_set(e, "--%s %s: not a number", o->name, text);
		*(double *)(void *)field = v;
		return check_range(o, v, text, e);
	}
	case OPT_STRING: *(const char **)(void *)field = text; return 0;
	case OPT_CHOICE:
		for (int i = 0; o->choices[i]; i++)
			if (same_name(o->choices[i], text)) {
				*(int *)(void *)field = i;
				return 0;
			}
		return bad_choice(o, text, e);
	default: BUG("option type %d holds no value", (int)o->type);
	}
}

/*
 * Replaces an earlier list instead of appending to it, like every other option. The words are
 * borrowed; only the array belongs to the pool.
 */
static int
store_list(struct opt_parse *p, const struct opt *o, int count, char **word, struct err *e)
{
	struct opt_list *l = (struct opt_list *)(void *)((char *)p->cfg + o->off);

	if (count == 0)
		return err_set(e, "--%s: needs at least one value", o->name);
	l->count = count;
	l->item = mem_pool_alloc(&p->pool, (size_t)count, sizeof *l->item);
	for (int i = 0; i < count; i++)
		l->item[i] = word[i];
	return 0;
}

int
opt_numbers(const char *name, const struct opt_list *l, int64_t least, int64_t *out, struct err *e)
{
	for (int i = 0; i < l->count; i++) {
		char *end;

		errno = 0;
		out[i] = strtoll(l->item[i], &end, 10);
		if (end == l->item[i] || *end || errno || out[i] < least || (double)out[i] > 1e15)
			return err_set(e, "--%s %s: must be a whole number from %lld to 1e15", name,
			    l->item[i], (long long)least);
	}
	return 0;
}

/*
 * Fields get their defaults through the same parser, so the first run of any test finds a default
 * outside its own range. The field of a "--no-..." row starts true. Memory of p, and with it
 * strings in cfg, is valid until opt_release.
 */
void
opt_begin(struct opt_parse *p, const struct opt *table, void *cfg)
{
	int rows = 0;
	struct err e;

	memset(p, 0, sizeof *p);
	p->table = table;
	p->cfg = cfg;
	for (; table[rows].type != OPT_END_TYPE; rows++) {
		const struct opt *o = &table[rows];

		if (o->type == OPT_UNFLAG)
			*(bool *)((char *)cfg + o->off) = true;
		if (!o->def || o->type == OPT_NOTE)
			continue;
		if (o->type == OPT_LIST) {
			char *word = mem_pool_strndup(&p->pool, o->def, strlen(o->def));

			store_list(p, o, 1, &word, &e);
		} else if (store(p, o, o->def, &e) < 0) {
			BUG("default of its own: %s", e.msg);
		}
	}
	p->given = mem_zalloc((size_t)rows + 1, sizeof *p->given);
}

/* Strings and lists in the caller's struct become invalid, unless they came from argv. */
void
opt_release(struct opt_parse *p)
{
	free(p->given);
	p->given = NULL;
	str_release(&p->notes);
	free(p->met);
	p->met = NULL;
	mem_pool_release(&p->pool);
}

/*
 * Distinguishes a value that was typed from an equal default. A name that is not in the table is a
 * bug, since it could never be given.
 */
bool
opt_given(const struct opt_parse *p, const char *name)
{
	const struct opt *o = find(p->table, name);

	if (!o)
		BUG("no option '%s'", name);
	return p->given[o - p->table];
}

/* True for an option, false for a value; "-5" and "-" are values. */
static bool
is_option(const char *word)
{
	return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.';
}

/* Remembers a refused option; false when the name is not one of them. */
static bool
is_refused(struct opt_parse *p, const char *name)
{
	const struct opt_refused *r = p->refused;
	size_t rows = 0, found;

	while (r && r[rows].name && !same_name(r[rows].name, name))
		rows++;
	if (!r || !r[rows].name)
		return false;
	found = rows;
	while (r[rows].name)
		rows++;
	if (!p->met)
		p->met = mem_zalloc(rows, sizeof *p->met);
	p->met[found] = true;
	return true;
}

/* The value of a row that accepts only one, which is no news; another makes the option a refused
 * one. */
static int
apply_only(struct opt_parse *p, const struct opt *o, const char *inline_value, int count,
    char **word, struct err *e)
{
	const char *value = inline_value ? inline_value : count > 0 ? word[0] : NULL;

	if (!value || (!inline_value && is_option(value)))
		return err_set(e, "--%s: needs a value: %s", o->name, o->def);
	if (strcmp(value, o->def) != 0 && !is_refused(p, o->name))
		return err_set(e, "--%s %s: must be %s", o->name, value, o->def);
	return !inline_value;
}

/* Applies one option with its values; returns the number of words used, or -1. */
static int
apply(struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word,
    struct err *e)
{
	int used = 0;

	p->given[o - p->table] = true;
	switch (o->type) {
	case OPT_HELP: p->want_help = true; return 0;
	case OPT_VERSION: p->want_version = true; return 0;
	case OPT_QUIET: p->level = -1; return 0;
	case OPT_VERBOSE: p->level = 1; return 0;
	case OPT_CONFIG:
		return inline_value || count > 0 ? !inline_value
						 : err_set(e, "--config: needs a file");
	case OPT_LIST:
	case OPT_NOTE:
		if (o->type == OPT_NOTE && o->def)
			return apply_only(p, o, inline_value, count, word, e);
		while (!inline_value && used < count && !is_option(word[used]))
			used++;
		if (o->type == OPT_NOTE) {
			str_addf(&p->notes, "--%s: %s\n", o->name, o->help);
			return used;
		}
		if (inline_value) {
			char *one = mem_pool_strndup(&p->pool, inline_value, strlen(inline_value));

			return store_list(p, o, 1, &one, e);
		}
		return store_list(p, o, used, word, e) < 0 ? -1 : used;
	case OPT_FLAG:
	case OPT_UNFLAG:
		if (inline_value)
			return err_set(e, "--%s: takes no value", o->name);
		return store(p, o, NULL, e);
	default:
		if (!inline_value && count < 1)
			return err_set(e, "--%s: needs a value%s%s", o->name, o->unit ? ": " : "",
			    o->unit ? o->unit : "");
		if (store(p, o, inline_value ? inline_value : word[0], e) < 0)
			return -1;
		return !inline_value;
	}
}

/* Handles the option at word[0] (with its dashes); returns the words used, itself included, or
 * -1. */
static int
one_option(struct opt_parse *p, int count, char **word, struct err *e)
{
	const char *name = word[0], *eq = NULL, *value = NULL;
	const struct opt *o;
	int used;

	if (name[1] != '-') {
		o = find_letter(p->table, name[1]);
		if (!o)
			return err_set(
			    e, "unknown option '-%c'; --help lists the options", name[1]);
		if (name[2])
			value = name + 2;
		if (value && !takes_value(o))
			return err_set(e, "-%c: takes no value", name[1]);
	} else {
		name += 2;
		eq = strchr(name, '=');
		if (eq) {
			name = mem_pool_strndup(&p->pool, name, (size_t)(eq - name));
			value = eq + 1;
		}
		o = find(p->table, name);
	}
	if (!o) {
		used = 1;
		if (!is_refused(p, name))
			return unknown(p, name, e);
		while (used < count && !is_option(word[used]))
			used++;
		return used;
	}
	used = apply(p, o, value, count - 1, word + 1, e);
	return used < 0 ? -1 : used + 1;
}

/*
 * 16 MiB is far above any option file and bounds the read of a wrong path. A NUL byte is refused
 * first: the rest works on C strings.
 */
static int
read_config(struct opt_parse *p, const char *path, struct err *e)
{
	char *text;
	size_t len;
	int rc;

	if (io_read_file(path, 16 << 20, &text, &len, e) < 0)
		return -1;
	if (memchr(text, '\0', len))
		rc = err_set(e, "%s: not an option file: it contains a NUL byte", path);
	else
		rc = opt_text(p, path, text, false, e);
	free(text);
	return rc;
}

/* The --config files are read first, wherever they are given, so that the command line wins. */
static int
read_configs(struct opt_parse *p, int argc, char **argv, struct err *e)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
		const char *path = NULL;

		if (!strncmp(argv[i], "--config=", 9))
			path = argv[i] + 9;
		else if (!strcmp(argv[i], "--config") && i + 1 < argc)
			path = argv[++i];
		if (path && read_config(p, path, e) < 0)
			return -1;
	}
	return 0;
}

/* The refused options of one kind that were given, grouped by reason, which loses its OPT_HARMLESS
 * ending: "--a, --b (why), --c (why)". */
static void
list_refused(const struct opt_parse *p, bool kind, struct str *out)
{
	size_t ending = sizeof OPT_HARMLESS - 1, len = 0;
	const char *why = NULL;

	for (const struct opt_refused *r = p->refused; r->name; r++) {
		size_t n = strlen(r->why);
		bool harmless = n > ending && !strcmp(r->why + n - ending, OPT_HARMLESS);

		if (!p->met[r - p->refused] || harmless != kind)
			continue;
		if (why && strcmp(why, r->why))
			str_addf(out, " (%.*s)", (int)len, why);
		str_addf(out, "%s--%s", why ? ", " : "", r->name);
		why = r->why;
		len = harmless ? n - ending : n;
	}
	if (why)
		str_addf(out, " (%.*s)", (int)len, why);
}

/* All refused options in one message, so that a script is ported in one pass; those that change the
 * result come first. */
static int
report_refused(const struct opt_parse *p, struct err *e)
{
	struct str serious = { 0 }, harmless = { 0 };

	list_refused(p, false, &serious);
	list_refused(p, true, &harmless);
	if (!harmless.len)
		err_set(e, "options that this program does not have: %s", serious.buf);
	else
		err_set(e,
		    "options that this program does not have: %s%sto be left out, without effect "
		    "on the result: %s",
		    serious.len ? serious.buf : "", serious.len ? "; " : "", harmless.buf);
	str_release(&serious);
	str_release(&harmless);
	return -1;
}

/*
 * Operands are moved to the front in their order, and *argc becomes their number; everything after
 * "--" is one. Options may follow operands. Refused options are reported at the end, unless --help
 * is given, where the user looks for an alternative.
 */
int
opt_argv(struct opt_parse *p, int *argc, char ***argv, struct err *e)
{
	char **word = *argv;
	int n = *argc, kept = 0, i = 0;

	if (read_configs(p, n, word, e) < 0)
		return -1;
	while (i < n) {
		int used;

		if (!strcmp(word[i], "--")) {
			for (i++; i < n; i++)
				word[kept++] = word[i];
			break;
		}
		if (!is_option(word[i])) {
			word[kept++] = word[i++];
			continue;
		}
		used = one_option(p, n - i, word + i, e);
		if (used < 0)
			return -1;
		i += used;
	}
	*argc = kept;
	return p->met && !p->want_help ? report_refused(p, e) : 0;
}

/* Splits a line into words, honouring double quotes; the words belong to the pool. Returns the
 * count or -1. */
static int
split(struct opt_parse *p, const char *line, size_t len, char **word, int cap)
{
	size_t i = 0;
	int n = 0;

	while (i < len) {
		struct str s = { 0 };
		bool quoted = false;

		while (i < len && isspace((unsigned char)line[i]))
			i++;
		if (i == len || line[i] == '#')
			break;
		for (; i < len && (quoted || !isspace((unsigned char)line[i])); i++) {
			if (line[i] == '"')
				quoted = !quoted;
			else if (quoted && line[i] == '\\' && i + 1 < len)
				str_addc(&s, line[++i]);
			else
				str_addc(&s, line[i]);
		}
		if (quoted || n == cap) {
			str_release(&s);
			return -1;
		}
		word[n++] = mem_pool_strndup(&p->pool, s.len ? s.buf : "", s.len);
		str_release(&s);
	}
	return n;
}

/* The option of a line: its first word, with or without dashes. */
static const char *
line_name(char *const *word)
{
	return word[0] + (strncmp(word[0], "--", 2) == 0 ? 2 : 0);
}

/* One line of an option file. */
static int
one_line(struct opt_parse *p, char **word, int n, bool keep, struct err *e)
{
	const char *name = line_name(word);
	const struct opt *o = find(p->table, name);
	int used;

	if (n > 1 && !strcmp(word[1], "=")) {
		memmove(word + 1, word + 2, (size_t)(n - 2) * sizeof *word);
		n--;
	}
	if (!o && p->unknown)
		return p->unknown(name, n > 1 ? word[1] : NULL, e);
	if (!o)
		return is_refused(p, name) ? 0 : unknown(p, name, e);
	if (o->type == OPT_CONFIG || o->type == OPT_HELP || o->type == OPT_VERSION)
		return err_set(e, "--%s: not allowed in an option file", name);
	if (keep && p->given[o - p->table])
		return 0;
	if (o->type == OPT_LIST) {
		p->given[o - p->table] = true;
		return store_list(p, o, n - 1, word + 1, e);
	}
	used = apply(p, o, NULL, n - 1, word + 1, e);
	if (used >= 0 && used < n - 1)
		return err_set(e, "--%s: '%s' is one value too many", name, word[used + 1]);
	return used < 0 ? -1 : 0;
}

enum { WORDS = 4096 };

/*
 * keep protects options that were given before, for defaults that arrive late, such as those of a
 * checkpoint. Reasons carry the line number. Values are copied into p's pool, so the text is not
 * needed afterwards.
 */
int
opt_text(struct opt_parse *p, const char *path, const char *text, bool keep, struct err *e)
{
	char **word = mem_alloc(WORDS, sizeof *word);
	struct err why;
	long line = 0;
	int rc = 0;

	while (*text && rc == 0) {
		size_t len = strcspn(text, "\n");
		int n = split(p, text, len, word, WORDS);

		line++;
		if (n < 0)
			rc = err_at(e, path, line, "unbalanced quote or too many words");
		else if (n > 0 && one_line(p, word, n, keep, &why) < 0)
			rc = err_at(e, path, line, "%s", why.msg);
		text += len + (text[len] == '\n');
	}
	free(word);
	return rc;
}

/* A line that the reader would refuse names no option. The last line gets its newline. */
void
opt_text_without(const struct opt *table, const char *text, struct str *out)
{
	char **word = mem_alloc(WORDS, sizeof *word);
	struct opt_parse p = { 0 };

	while (*text) {
		size_t len = strcspn(text, "\n");
		int n = split(&p, text, len, word, WORDS);

		if (n < 1 || !find(table, line_name(word))) {
			str_add(out, text, len);
			str_addc(out, '\n');
		}
		text += len + (text[len] == '\n');
	}
	free(word);
	opt_release(&p);
}
