/*
 * expand.c - from a word of the script to what the shell would make of it
 *
 * Names of files are not expanded: paths stay as they were written. Unquoted expansions split on
 * blanks, since scripts keep whole blocks of options in one variable.
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <string.h>

enum mode { MODE_FIELDS, MODE_VALUE, MODE_PATTERN };
enum { DEEPEST = 40 };

struct expander {
	struct shell *sh;
	enum mode mode;
	struct str field;
	bool begun;    /* there is a field, though it may be empty */
	bool vanished; /* the quotes hold a "$@" of no words, which is no field */
	struct words *out;
};

static int expand_run(struct expander *x, const char *s, const char *end, bool quoted);

static void
end_field(struct expander *x)
{
	if (!x->begun && !x->field.len)
		return;
	words_add(x->sh, x->out, shell_keep(x->sh, x->field.buf ? x->field.buf : "", x->field.len));
	str_clear(&x->field);
	x->begun = false;
}

/* Characters that no blank splits. */
static void
add_quoted(struct expander *x, const char *s, size_t n)
{
	x->begun = true;
	for (size_t i = 0; i < n; i++) {
		if (x->mode == MODE_PATTERN && strchr("*?[]\\", s[i]) && s[i])
			str_addc(&x->field, '\\');
		str_addc(&x->field, s[i]);
	}
}

/* The result of an unquoted expansion; holes stay whole. */
static void
add_split(struct expander *x, const char *s)
{
	bool hole = false;

	for (; *s; s++) {
		hole = *s == HOLE_OPEN || (hole && *s != HOLE_CLOSE);
		if (!hole && x->mode == MODE_FIELDS && strchr(" \t\n", *s))
			end_field(x);
		else
			str_addc(&x->field, *s);
	}
}

static void
add_result(struct expander *x, const char *s, bool quoted)
{
	size_t n = strlen(s);

	x->sh->bytes += n;
	if (shell_over(x->sh))
		return;
	if (quoted)
		add_quoted(x, s, n);
	else
		add_split(x, s);
}

/* Several values: apart where the word may become several. */
static void
add_parameter(struct expander *x, const struct parameter *v, bool quoted)
{
	bool apart = x->mode == MODE_FIELDS && (v->many || !quoted);

	for (int i = 0; i < v->value.count; i++) {
		if (i && apart)
			end_field(x);
		else if (i)
			add_result(x, " ", quoted);
		add_result(x, v->value.item[i], quoted);
	}
}

/* The end of the name or the braces after the '$' at s. */
static const char *
parameter_end(const char *s)
{
	size_t n = scan_name(s + 1);

	if (s[1] == '{')
		return scan_piece(s);
	if (n)
		return s + 1 + n;
	return s[1] && strchr("@*#?$!-0123456789", s[1]) ? s + 2 : NULL;
}

static int
add_dollar_parameter(struct expander *x, const char *s, const char *end, bool quoted)
{
	struct parameter v = { 0 };
	bool braces = s[1] == '{';

	if (expand_parameter(
		x->sh, s + 1 + braces, (size_t)(end - s) - 1 - 2 * (size_t)braces, &v) < 0)
		return -1;
	x->vanished |= v.set && v.many && !v.value.count;
	if (v.set) {
		add_parameter(x, &v, quoted);
	} else {
		size_t name = braces ? scan_name(s + 2) : 0;
		const char *plain = s;

		/* ${A} and $A are the same hole. */
		if (name && s + 3 + name == end) {
			struct str t = { 0 };

			str_addf(&t, "$%.*s", (int)name, s + 2);
			plain = shell_keep(x->sh, t.buf, t.len);
			end = plain + strlen(plain);
			str_release(&t);
		}
		add_result(x, hole_of(x->sh, plain, (size_t)(end - plain)), quoted);
	}
	return 0;
}

static int
add_arithmetic(struct expander *x, const char *s, const char *end, bool quoted)
{
	char text[32];
	bool known;
	int64_t v;

	if (expand_arithmetic(x->sh, shell_keep(x->sh, s + 3, (size_t)(end - s) - 5), &known, &v) <
	    0)
		return -1;
	snprintf(text, sizeof text, "%lld", (long long)v);
	add_result(x, known ? text : hole_of(x->sh, s, (size_t)(end - s)), quoted);
	return 0;
}

static void
add_substitution(struct expander *x, const char *s, const char *end, bool quoted)
{
	size_t open = *s == '`' ? 1 : 2, n = (size_t)(end - s);
	const char *text = shell_keep(x->sh, s + open, n - open - 1);

	add_result(x, substitute(x->sh, s, n, text), quoted);
}

/* $'...': the escapes that scripts use. */
static void
add_escapes(struct expander *x, const char *s, const char *end)
{
	for (; s < end; s++) {
		char c = *s;

		if (c == '\\' && s + 1 < end) {
			c = *++s;
			c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
		}
		add_quoted(x, &c, 1);
	}
}

/* The '$' or '`' at s; *next is after it. */
static int
add_dollar(struct expander *x, const char *s, bool quoted, const char **next)
{
	const char *end =
	    *s == '`' || s[1] == '(' || (!quoted && s[1] == '\'') || (!quoted && s[1] == '"')
	    ? scan_piece(s)
	    : parameter_end(s);

	*next = end ? end : s + 1;
	if (!end) {
		add_quoted(x, s, 1);
		return 0;
	}
	if (*s != '`' && s[1] == '\'') {
		add_escapes(x, s + 2, end - 1);
		return 0;
	}
	if (*s != '`' && s[1] == '"') {
		x->begun = true;
		return expand_run(x, s + 2, end - 1, true);
	}
	if (!strncmp(s, "$((", 3) && end - s >= 5 && end[-2] == ')')
		return add_arithmetic(x, s, end, quoted);
	if (*s != '`' && s[1] != '(')
		return add_dollar_parameter(x, s, end, quoted);
	add_substitution(x, s, end, quoted);
	return 0;
}

/* A backslash keeps the next character; in double quotes only before a special one. */
static const char *
add_backslash(struct expander *x, const char *s, const char *end, bool quoted)
{
	if (s + 1 >= end) {
		add_quoted(x, s, 1);
		return s + 1;
	}
	if (s[1] == '\n')
		return s + 2;
	if (quoted && !strchr("$`\"\\", s[1]))
		add_quoted(x, s, 2);
	else
		add_quoted(x, s + 1, 1);
	return s + 2;
}

/* What stands between quotes at s; *next is after them. */
static int
add_quotes(struct expander *x, const char *s, const char **next)
{
	const char *end = scan_piece(s);
	bool before = x->begun;
	int rc = 0;

	if (!end)
		return shell_refuse(x->sh, "a quote that does not end");
	*next = end;
	x->begun = true;
	x->vanished = false;
	if (*s == '"')
		rc = expand_run(x, s + 1, end - 1, true);
	else
		add_quoted(x, s + 1, (size_t)(end - s) - 2);
	if (x->vanished && !x->field.len)
		x->begun = before;
	return rc;
}

/* A home directory is one of a run, like $HOME. */
static const char *
add_tilde(struct expander *x, const char *s)
{
	struct parameter v = { 0 };

	if (s[1] && s[1] != '/') {
		str_addc(&x->field, '~');
		return s + 1;
	}
	expand_parameter(x->sh, "HOME", 4, &v);
	add_result(x, v.set && v.value.count ? v.value.item[0] : hole_of(x->sh, "$HOME", 5), true);
	return s + 1;
}

static int
expand_run(struct expander *x, const char *s, const char *end, bool quoted)
{
	const char *start = s;

	if (x->sh->depth > DEEPEST)
		return shell_refuse(x->sh, "expansions inside more than 40 others");
	while (s < end) {
		if (*s == '$' || *s == '`') {
			if (add_dollar(x, s, quoted, &s) < 0)
				return -1;
		} else if (*s == HOLE_OPEN) {
			const char *close = scan_piece(s);

			str_add(&x->field, s, (size_t)(close - s));
			s = close;
		} else if (*s == '\\') {
			s = add_backslash(x, s, end, quoted);
		} else if (!quoted && (*s == '\'' || *s == '"')) {
			if (add_quotes(x, s, &s) < 0)
				return -1;
		} else if (!quoted && *s == '~' && s == start) {
			s = add_tilde(x, s);
		} else if (quoted) {
			add_quoted(x, s++, 1);
		} else {
			str_addc(&x->field, *s++);
		}
	}
	return 0;
}

static int
expand(struct shell *sh, enum mode mode, const char *raw, struct words *out)
{
	struct expander x = { .sh = sh, .mode = mode, .begun = mode != MODE_FIELDS, .out = out };
	int rc;

	sh->depth++;
	sh->steps++;
	rc = expand_run(&x, raw, raw + strlen(raw), false);
	sh->depth--;
	end_field(&x);
	str_release(&x.field);
	if (rc == 0 && shell_over(sh))
		rc = err_at(sh->e, sh->name, sh->line,
		    "the script makes more than a launch script does: 8 MiB of text or a "
		    "million steps");
	return rc;
}

int
expand_fields(struct shell *sh, const char *raw, struct words *out)
{
	return expand(sh, MODE_FIELDS, raw, out);
}

int
expand_value(struct shell *sh, const char *raw, const char **out)
{
	struct words w = { 0 };
	int rc = expand(sh, MODE_VALUE, raw, &w);

	*out = w.count ? w.item[0] : "";
	return rc;
}

int
expand_pattern(struct shell *sh, const char *raw, const char **out)
{
	struct words w = { 0 };
	int rc = expand(sh, MODE_PATTERN, raw, &w);

	*out = w.count ? w.item[0] : "";
	return rc;
}
