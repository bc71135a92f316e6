/*
 * opt.c - parsing by the option table
 *
 * One row of a table gives the name, the type, the range, the default and the text of an option,
 * and the place of its value in the caller's struct. The command line and option files go through
 * the same code, so a word means the same in both; a later word wins over an earlier one, and the
 * command line over any file. An error does not end the reading: the option keeps its default, and
 * all errors are told together.
 */
#include "lib/base/io.h"
#include "lib/base/opt_impl.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const opt_shells[] = { "bash", "zsh", NULL };

bool
opt_same_name(const char *a, const char *b, bool fold)
{
	for (; *a && *b; a++, b++) {
		int x = *a == '_' ? '-' : (unsigned char)*a;
		int y = *b == '_' ? '-' : (unsigned char)*b;

		if (fold ? tolower(x) != tolower(y) : x != y)
			return false;
	}
	return *a == *b;
}

/* Tables have a few hundred rows and are searched once per word, so a linear scan is enough. */
const struct opt *
opt_find(const struct opt *table, const char *name)
{
	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++)
		if (o->name && opt_same_name(o->name, name, false))
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
	return opt_takes(o) == 1;
}

/* --- values ----------------------------------------------------------------------------------- */

/* The text without '_' between two digits. False for one that stands elsewhere, and for a text that
 * is no number for its length alone. */
static bool
plain_digits(const char *text, char *out, size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; text[i]; i++) {
		bool between = i > 0 && isdigit((unsigned char)text[i - 1]) &&
		    isdigit((unsigned char)text[i + 1]);

		if (text[i] == '_' && between)
			continue;
		if (text[i] == '_' || n + 1 == cap)
			return false;
		out[n++] = text[i];
	}
	out[n] = '\0';
	return n > 0;
}

static bool
read_integer(const char *text, int64_t *out)
{
	char digits[64], *end;

	if (!plain_digits(text, digits, sizeof digits))
		return false;
	errno = 0;
	*out = strtoll(digits, &end, 10);
	return !*end && end != digits && !errno;
}

bool
opt_read_number(const char *text, double *out)
{
	char digits[512], *end;

	if (!plain_digits(text, digits, sizeof digits))
		return false;
	*out = strtod(digits, &end);
	return !*end && end != digits && isfinite(*out);
}

/* A later value wins, also over one that was out of range: other programs look at the last. */
static void
forget_range(struct opt_parse *p, const struct opt *o)
{
	struct opt_errors *l = p->errors;
	int n = 0;

	for (int i = 0; i < l->count; i++)
		if (l->item[i].range != o)
			l->item[n++] = l->item[i];
	l->bad[o - p->table] = l->bad[o - p->table] && n == l->count;
	l->count = n;
}

/* min == max means that the row has no range. Bounds are doubles, exact up to 2^53, far above any
 * bound. */
static bool
in_range(struct opt_parse *p, const struct opt *o, double v, const char *text)
{
	forget_range(p, o);
	if (o->min == o->max || (v >= o->min && v <= o->max))
		return true;
	if (isinf(o->max))
		opt_fail(p, o, "--%s %s: must be at least %.12g", o->name, text, o->min);
	else
		opt_fail(
		    p, o, "--%s %s: must be from %.12g to %.12g", o->name, text, o->min, o->max);
	p->errors->item[p->errors->count - 1].range = o;
	return false;
}

/* "1e3" is no integer in Python either, but tells what is meant. */
static void
bad_integer(struct opt_parse *p, const struct opt *o, const char *text)
{
	double v;

	if (opt_read_number(text, &v) && v == floor(v) && fabs(v) < 1e15)
		opt_fail(p, o, "--%s %s: not an integer; write %.0f", o->name, text, v);
	else
		opt_fail(p, o, "--%s %s: not an integer", o->name, text);
}

/* Lists the legal values, since there are never many. */
static void
bad_choice(struct opt_parse *p, const struct opt *o, const char *text)
{
	struct str s = { 0 };

	for (int i = 0; o->choices[i]; i++)
		str_addf(&s, "%s%s", i ? ", " : "", o->choices[i]);
	opt_fail(p, o, "--%s %s: must be one of %s", o->name, text, s.buf);
	str_release(&s);
}

/* Our word for another program's, which a note names. */
static const char *
own_word(struct opt_parse *p, const struct opt *o, const char *text)
{
	for (const char *const *a = o->alias; a && *a; a += 2)
		if (opt_same_name(a[0], text, true)) {
			str_addf(&p->notes, "--%s %s: is %s here\n", o->name, text, a[1]);
			return a[1];
		}
	return text;
}

static void
store_choice(struct opt_parse *p, const struct opt *o, const char *text)
{
	const char *word = own_word(p, o, text);

	for (int i = 0; o->choices[i]; i++)
		if (opt_same_name(o->choices[i], word, true)) {
			*(int *)(void *)((char *)p->cfg + o->off) = i;
			return;
		}
	bad_choice(p, o, text);
}

/* Stores one scalar value, or leaves the field as it is with an error. Strings are borrowed: the
 * caller keeps them valid as long as p. */
static void
store(struct opt_parse *p, const struct opt *o, const char *text)
{
	void *field = (char *)p->cfg + o->off;
	int64_t n;
	double v;

	switch (o->type) {
	case OPT_FLAG: *(bool *)field = true; break;
	case OPT_UNFLAG: *(bool *)field = false; break;
	case OPT_INT:
		if (!read_integer(text, &n))
			bad_integer(p, o, text);
		else if (in_range(p, o, (double)n, text))
			*(int64_t *)field = n;
		break;
	case OPT_NUMBER:
		if (!opt_read_number(text, &v))
			opt_fail(p, o, "--%s %s: not a number", o->name, text);
		else if (in_range(p, o, v, text))
			*(double *)field = v;
		break;
	case OPT_STRING: *(const char **)field = own_word(p, o, text); break;
	case OPT_CHOICE: store_choice(p, o, text); break;
	default: BUG("option type %d holds no value", (int)o->type);
	}
}

/* Appends the word, or the numbers of a list that was quoted, as "16 16 2". */
static void
add_item(struct opt_parse *p, struct opt_list *l, const char *word)
{
	bool numbers = strpbrk(word, "0123456789") && !word[strspn(word, "0123456789_-+.eE ")];

	for (size_t len; *word; word += len) {
		word += numbers ? strspn(word, " ") : 0;
		len = numbers ? strcspn(word, " ") : strlen(word);
		if (len)
			l->item[l->count++] =
			    word[len] ? mem_pool_strndup(&p->pool, word, len) : word;
	}
}

/* Replaces an earlier list instead of appending to it, like every other option. The words are
 * borrowed; only the array belongs to the pool. */
static void
store_list(struct opt_parse *p, const struct opt *o, int count, char *const *word)
{
	struct opt_list *l = (struct opt_list *)(void *)((char *)p->cfg + o->off);
	size_t cap = 0;

	for (int i = 0; i < count; i++)
		cap += strlen(word[i]) + 1;
	if (count == 0) {
		opt_fail(p, o, "--%s: needs at least one value", o->name);
		return;
	}
	l->count = 0;
	l->item = mem_pool_alloc(&p->pool, cap, sizeof *l->item);
	for (int i = 0; i < count; i++)
		if (*word[i])
			add_item(p, l, word[i]);
		else
			l->item[l->count++] = word[i];
}

int
opt_numbers(const char *name, const struct opt_list *l, int64_t least, int64_t *out, struct err *e)
{
	for (int i = 0; i < l->count; i++)
		if (!read_integer(l->item[i], &out[i]) || out[i] < least || (double)out[i] > 1e15)
			return err_set(e, "--%s %s: must be a whole number from %lld to 1e15", name,
			    l->item[i], (long long)least);
	return 0;
}

/* --- a parse ---------------------------------------------------------------------------------- */

/*
 * Fields get their defaults through the same parser, so the first run of any test finds a default
 * outside its own range. The field of a "--no-..." row starts true. Memory of p, and with it
 * strings in cfg, is valid until opt_release.
 */
void
opt_begin(struct opt_parse *p, const struct opt *table, void *cfg)
{
	size_t rows = 0;
	struct err e;

	while (table[rows].type != OPT_END_TYPE)
		rows++;
	*p = (struct opt_parse){ .table = table,
		.cfg = cfg,
		.where = "",
		.given = mem_zalloc(rows + 1, sizeof *p->given),
		.errors = mem_zalloc(1, sizeof *p->errors),
		.place = mem_zalloc(rows + 1, sizeof *p->place) };
	p->errors->bad = mem_zalloc(rows + 1, sizeof *p->errors->bad);
	for (const struct opt *o = table; o->type != OPT_END_TYPE; o++) {
		if (o->type == OPT_UNFLAG)
			*(bool *)((char *)cfg + o->off) = true;
		if (!o->def || o->type == OPT_NOTE)
			continue;
		if (o->type == OPT_LIST) {
			char *word = mem_pool_strndup(&p->pool, o->def, strlen(o->def));

			store_list(p, o, 1, &word);
		} else {
			store(p, o, o->def);
		}
	}
	if (opt_answer(p, &e) < 0)
		BUG("default of its own: %s", e.msg);
}

/* Strings and lists in the caller's struct become invalid, unless they came from argv. */
void
opt_release(struct opt_parse *p)
{
	if (p->errors) {
		free(p->errors->item);
		free(p->errors->bad);
		mem_pool_release(&p->errors->pool);
	}
	free(p->errors);
	free(p->given);
	free(p->place);
	free(p->met);
	str_release(&p->notes);
	mem_pool_release(&p->pool);
	memset(p, 0, sizeof *p);
}

/*
 * Distinguishes a value that was typed from an equal default. A name that is not in the table is a
 * bug, since it could never be given.
 */
bool
opt_given(const struct opt_parse *p, const char *name)
{
	const struct opt *o = opt_find(p->table, name);

	if (!o)
		BUG("no option '%s'", name);
	return p->given[o - p->table];
}

/* True for an option, false for a value; "-5" and "-" are values. */
bool
opt_is_option(const char *word)
{
	return word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.';
}

int
opt_values(int count, char *const *word)
{
	int n = 0;

	while (n < count && !opt_is_option(word[n]))
		n++;
	return n;
}

bool
opt_is_value(const struct opt_parse *p, const char *word)
{
	return !opt_is_option(word) ||
	    (word[1] != '-' && (word[2] || !find_letter(p->table, word[1])));
}

/* A row that changes nothing, or one that accepts only one value, which is no news. Another value
 * makes it another program's option. */
static int
apply_note(
    struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word)
{
	const struct opt_foreign *f = o->def ? opt_foreign_find(p->foreign, o->name) : NULL;
	bool follows = !inline_value && count > 0 && opt_is_value(p, word[0]);
	const char *value = follows ? word[0] : inline_value;

	if (opt_takes(o) && !value)
		opt_fail(p, o, "--%s: needs a value: %s", o->name, o->def ? o->def : opt_unit(o));
	else if (!opt_takes(o) && inline_value)
		opt_fail(p, o, "--%s: takes no value", o->name);
	else if (!o->def)
		opt_meet(p, &(struct opt_met){ .name = o->name, .why = o->help });
	else if (strcmp(value, o->def) != 0 && f)
		opt_refuse(p, f);
	else if (strcmp(value, o->def) != 0)
		opt_fail(p, o, "--%s %s: must be %s", o->name, value, o->def);
	if (!follows || !opt_takes(o))
		return 0;
	return opt_takes(o) > 1 ? opt_values(count, word) : 1;
}

static int
apply_list(
    struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word)
{
	int used = inline_value ? 0 : opt_values(count, word);
	char *one;

	if (!inline_value) {
		store_list(p, o, used, word);
		return used;
	}
	one = mem_pool_strndup(&p->pool, inline_value, strlen(inline_value));
	store_list(p, o, 1, &one);
	return 0;
}

static int
apply_scalar(
    struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word)
{
	if (inline_value || (count > 0 && opt_is_value(p, word[0]))) {
		store(p, o, inline_value ? inline_value : word[0]);
		return !inline_value;
	}
	opt_fail(
	    p, o, "--%s: needs a value%s%s", o->name, o->unit ? ": " : "", o->unit ? o->unit : "");
	return 0;
}

/* The words after it say what to tell of; --help may be given again. */
static int
apply_help(struct opt_parse *p, const char *inline_value, int count, char **word)
{
	int used = inline_value ? 0 : opt_values(count, word);
	struct opt_list before = p->topic;

	p->topic.item =
	    mem_pool_alloc(&p->pool, (size_t)(before.count + used) + 1, sizeof *p->topic.item);
	for (int i = 0; i < before.count; i++)
		p->topic.item[i] = before.item[i];
	for (int i = 0; i < used; i++)
		p->topic.item[p->topic.count++] = word[i];
	if (inline_value)
		p->topic.item[p->topic.count++] = inline_value;
	return used;
}

static int
apply_completion(
    struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word)
{
	const char *text = inline_value ? inline_value : count > 0 ? word[0] : "";

	for (const char *const *s = o->choices; *s; s++)
		if (!strcmp(*s, text))
			p->shell = *s;
	if (!p->shell)
		bad_choice(p, o, text);
	return !inline_value && count > 0;
}

int
opt_apply(
    struct opt_parse *p, const struct opt *o, const char *inline_value, int count, char **word)
{
	p->given[o - p->table] = true;
	p->place[o - p->table] = p->at;
	switch (o->type) {
	case OPT_HELP: p->want_help = true; return apply_help(p, inline_value, count, word);
	case OPT_COMPLETION: return apply_completion(p, o, inline_value, count, word);
	case OPT_VERSION: p->want_version = true; return 0;
	case OPT_QUIET: p->level = -1; return 0;
	case OPT_VERBOSE: p->level = 1; return 0;
	case OPT_CONFIG:
		if (!inline_value && !(count > 0 && opt_is_value(p, word[0]))) {
			opt_fail(p, o, "--config: needs a file");
			return 0;
		}
		return !inline_value;
	case OPT_NOTE: return apply_note(p, o, inline_value, count, word);
	case OPT_LIST: return apply_list(p, o, inline_value, count, word);
	case OPT_FLAG:
	case OPT_UNFLAG:
		if (inline_value)
			opt_fail(p, o, "--%s: takes no value", o->name);
		else
			store(p, o, NULL);
		return 0;
	default: return apply_scalar(p, o, inline_value, count, word);
	}
}

/* --- the command line ------------------------------------------------------------------------- */

/* An option of one dash; returns the words used, itself included. */
static int
one_letter(struct opt_parse *p, int count, char **word)
{
	const char *name = word[0];
	const struct opt *o = find_letter(p->table, name[1]);

	if (!o)
		opt_fail(p, NULL, "unknown option '-%c'; --help lists the options", name[1]);
	else if (name[2] && !takes_value(o))
		opt_fail(p, o, "-%c: takes no value", name[1]);
	else
		return 1 + opt_apply(p, o, name[2] ? name + 2 : NULL, count - 1, word + 1);
	return 1 + (o ? 0 : opt_values(count - 1, word + 1));
}

/* Handles the option at word[0] (with its dashes); returns the words used, itself included. Those
 * after an unknown option belong to it. */
static int
one_option(struct opt_parse *p, int count, char **word)
{
	const char *name = word[0] + 2, *eq = strchr(name, '='), *value = NULL;
	const struct opt_foreign *f;
	const struct opt *o;

	if (word[0][1] != '-')
		return one_letter(p, count, word);
	if (eq) {
		name = mem_pool_strndup(&p->pool, name, (size_t)(eq - name));
		value = eq + 1;
	}
	o = opt_find(p->table, name);
	if (o)
		return 1 + opt_apply(p, o, value, count - 1, word + 1);
	f = opt_foreign_find(p->foreign, name);
	if (f)
		return 1 + opt_foreign_apply(p, f, value, count - 1, word + 1);
	opt_unknown(p, name);
	return 1 + opt_values(count - 1, word + 1);
}

static void text_lines(struct opt_parse *p, const char *path, const char *text, bool keep);

/*
 * 16 MiB is far above any option file and bounds the read of a wrong path. A NUL byte is refused
 * first: the rest works on C strings.
 */
static void
read_config(struct opt_parse *p, const char *path)
{
	struct err e;
	char *text;
	size_t len;

	if (io_read_file(path, 16 << 20, &text, &len, &e) < 0) {
		p->unread = true;
		opt_fail(p, NULL, "%s", e.msg);
		return;
	}
	if (memchr(text, '\0', len))
		opt_fail(p, NULL, "%s: not an option file: it contains a NUL byte", path);
	else
		text_lines(p, path, text, false);
	free(text);
}

/* The --config files are read first, wherever they are given, so that the command line wins. */
static void
read_configs(struct opt_parse *p, int argc, char **argv)
{
	p->at = INT_MIN;
	for (int i = 0; i < argc && strcmp(argv[i], "--"); i++) {
		const char *path = NULL;

		if (!strncmp(argv[i], "--config=", 9))
			path = argv[i] + 9;
		else if (!strcmp(argv[i], "--config") && i + 1 < argc &&
		    opt_is_value(p, argv[i + 1]))
			path = argv[++i];
		if (path)
			read_config(p, path);
	}
}

/* How many values an option takes; NULL: there is no such option. */
static const char *
how_many(const struct opt_parse *p, const char *name)
{
	const struct opt *o = opt_find(p->table, name);
	const struct opt_foreign *f = o ? NULL : opt_foreign_find(p->foreign, name);

	if (o)
		return opt_takes(o) ? "one" : "no";
	return f ? f->words ? "one" : "no" : NULL;
}

/* A word that belongs to no option, where operands are none: most often a value has a blank too
 * many. option: the option right before it, or NULL. */
static void
stray(struct opt_parse *p, const char *word, const char *option)
{
	const char *name = option ? option + strspn(option, "-") : "";
	const char *many = how_many(p, name);

	if (many)
		opt_fail(p, opt_find(p->table, name), "'%s': %s, after --%s, which takes %s value",
		    word, p->no_operands, name, many);
	else
		opt_fail(p, NULL, "'%s': %s", word, p->no_operands);
}

/*
 * Operands are moved to the front in their order, and *argc becomes their number; everything after
 * "--" is one. Options may follow operands. Nothing is wrong with a line that asks for --help,
 * where the user looks for an alternative.
 */
int
opt_argv(struct opt_parse *p, int *argc, char ***argv, struct err *e)
{
	char **word = *argv;
	const char *before = NULL; /* the option whose words end here */
	int n = *argc, kept = 0, i = 0;

	read_configs(p, n, word);
	while (i < n) {
		p->at = i + 1;
		if (!strcmp(word[i], "--")) {
			for (i++; i < n; i++)
				word[kept++] = word[i];
			break;
		}
		if (opt_is_option(word[i])) {
			before = word[i];
			i += one_option(p, n - i, word + i);
			continue;
		}
		if (p->no_operands && (before || !kept))
			stray(p, word[i], before);
		before = NULL;
		word[kept++] = word[i++];
	}
	*argc = kept;
	opt_foreign_end(p);
	return p->want_help ? 0 : opt_answer(p, e);
}

/* --- option files ----------------------------------------------------------------------------- */

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

/* A line whose option is not in the table. */
static void
other_line(struct opt_parse *p, const char *name, char **word, int n)
{
	const struct opt_foreign *f = opt_foreign_find(p->foreign, name);
	struct err e;

	if (f)
		opt_foreign_apply(p, f, NULL, n - 1, word + 1);
	else if (!p->unknown)
		opt_unknown(p, name);
	else if (p->unknown(name, n > 1 ? word[1] : NULL, &e) < 0)
		opt_fail(p, NULL, "%s", e.msg);
}

/* One line of an option file. Its words are its option's, whatever they begin with. */
static void
one_line(struct opt_parse *p, char **word, int n, bool keep)
{
	const char *name = line_name(word);
	const struct opt *o = opt_find(p->table, name);
	int used;

	if (n > 1 && !strcmp(word[1], "=")) {
		memmove(word + 1, word + 2, (size_t)(n - 2) * sizeof *word);
		n--;
	}
	if (!o) {
		other_line(p, name, word, n);
		return;
	}
	if (o->type == OPT_CONFIG || o->type == OPT_HELP || o->type == OPT_VERSION ||
	    o->type == OPT_COMPLETION) {
		opt_fail(p, o, "--%s: not allowed in an option file", name);
		return;
	}
	if (keep && p->given[o - p->table])
		return;
	if (o->type == OPT_LIST) {
		p->given[o - p->table] = true;
		p->place[o - p->table] = p->at;
		store_list(p, o, n - 1, word + 1);
		return;
	}
	if (takes_value(o) && n > 1)
		used = opt_apply(p, o, word[1], 0, NULL) + 1;
	else
		used = opt_apply(p, o, NULL, n - 1, word + 1);
	if (used < n - 1)
		opt_fail(p, o, "--%s: '%s' is one value too many", name, word[used + 1]);
}

enum { WORDS = 4096 };

/* Errors carry the line number. Values are copied into p's pool, so the text is not needed
 * afterwards. */
static void
text_lines(struct opt_parse *p, const char *path, const char *text, bool keep)
{
	char **word = mem_alloc(WORDS, sizeof *word);
	const char *outer = p->where;
	struct str where = { 0 };

	for (long line = 1; *text; line++) {
		size_t len = strcspn(text, "\n");
		int n = split(p, text, len, word, WORDS);

		str_clear(&where);
		str_addf(&where, "%s:%ld: ", path, line);
		p->where = where.buf;
		p->at++;
		if (n < 0)
			opt_fail(p, NULL, "unbalanced quote or too many words");
		else if (n > 0)
			one_line(p, word, n, keep);
		text += len + (text[len] == '\n');
	}
	p->where = outer;
	str_release(&where);
	free(word);
}

/*
 * keep protects options that were given before, for defaults that arrive late, such as those of a
 * checkpoint. Errors are told at once, whatever was wrong before.
 */
int
opt_text(struct opt_parse *p, const char *path, const char *text, bool keep, struct err *e)
{
	struct opt_errors before = *p->errors;
	int rc;

	*p->errors = (struct opt_errors){ .bad = before.bad };
	text_lines(p, path, text, keep);
	opt_foreign_end(p);
	rc = opt_answer(p, e);
	free(p->errors->item);
	mem_pool_release(&p->errors->pool);
	*p->errors = before;
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

		if (n < 1 || !opt_find(table, line_name(word))) {
			str_add(out, text, len);
			str_addc(out, '\n');
		}
		text += len + (text[len] == '\n');
	}
	free(word);
	opt_release(&p);
}
