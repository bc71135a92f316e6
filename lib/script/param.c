/*
 * param.c - ${...}: a variable, and what is made of its value
 *
 * A result that depends on a hole is a hole as a whole, the expression itself: ${A%.json} of
 * <$A> is <${A%.json}>.
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The parts of "NAME[SUBSCRIPT]OPERATION". */
struct reference {
	const char *name, *subscript, *operation;
	bool count, indirect;
};

/* $@ and its like, or the argument of a number. */
static bool
special(struct shell *sh, const char *name, struct parameter *out)
{
	const struct frame *f = sh->frame;
	char text[16];

	out->set = true;
	if (*name == '@' || *name == '*') {
		out->value = f->argument;
		out->many = *name == '@';
	} else if (isdigit((unsigned char)*name)) {
		int i = strlen(name) < 6 ? atoi(name) : INT_MAX;

		out->set = i <= f->argument.count;
		if (out->set)
			words_add(sh, &out->value, i ? f->argument.item[i - 1] : f->name);
	} else if (*name == '#') {
		snprintf(text, sizeof text, "%d", f->argument.count);
		words_add(sh, &out->value, shell_keep(sh, text, strlen(text)));
	} else if (*name == '?') {
		words_add(sh, &out->value, "0");
	} else if (*name == '-') {
		words_add(sh, &out->value, "");
	} else {
		out->set = false;
		return *name == '$' || *name == '!';
	}
	return true;
}

/* What a run or the user knows though the script does not set it. */
static bool
from_outside(struct shell *sh, const char *name, struct parameter *out)
{
	const char *value = given_value(sh, name);

	if (!value && !strcmp(name, "BASH_SOURCE"))
		value = sh->path;
	if (!value)
		return false;
	out->set = true;
	words_add(sh, &out->value, value);
	return true;
}

/* One element, or all of them. */
static int
element(struct shell *sh, const struct variable *v, const char *subscript, struct parameter *out)
{
	bool known;
	int64_t i;

	if (*subscript == '@' || *subscript == '*') {
		out->value = v->value;
		out->many = *subscript == '@';
		out->set = true;
		return 0;
	}
	if (expand_arithmetic(sh, subscript, &known, &i) < 0)
		return -1;
	if (i < 0)
		i += v->value.count;
	out->set = known && i >= 0 && i < v->value.count;
	if (out->set)
		words_add(sh, &out->value, v->value.item[i]);
	return 0;
}

/* The value without any operation. */
static int
plain(struct shell *sh, const struct reference *r, struct parameter *out)
{
	const struct variable *v;

	*out = (struct parameter){ 0 };
	if (!scan_name(r->name))
		return special(sh, r->name, out) ? 0 : shell_refuse(sh, "an expansion '${'");
	v = variable_find(sh, r->name);
	if (!v || !v->set) {
		from_outside(sh, r->name, out);
		return 0;
	}
	if (r->subscript)
		return element(sh, v, r->subscript, out);
	out->set = v->value.count > 0;
	if (out->set)
		words_add(sh, &out->value, v->value.item[0]);
	return 0;
}

static bool
any_hole(const struct parameter *v)
{
	for (int i = 0; i < v->value.count; i++)
		if (is_hole(v->value.item[i]))
			return true;
	return !v->set;
}

static bool
is_empty(const struct parameter *v)
{
	return !v->value.count || (v->value.count == 1 && !*v->value.item[0]);
}

static int
one_value(struct shell *sh, const char *raw, struct parameter *out)
{
	const char *value;

	*out = (struct parameter){ .set = true };
	if (expand_value(sh, raw, &value) < 0)
		return -1;
	words_add(sh, &out->value, value);
	return 0;
}

/* "-w" ":-w" "=w" ":=w" "+w" ":+w" "?w" ":?w". */
static int
default_value(struct shell *sh, const struct reference *r, struct parameter *v)
{
	bool colon = *r->operation == ':';
	char what = r->operation[colon];
	bool there = v->set && !(colon && is_empty(v));
	const char *word = r->operation + colon + 1;

	if (what == '+') {
		if (there)
			return one_value(sh, word, v);
		*v = (struct parameter){ .set = true };
		return 0;
	}
	if (there || what == '?')
		return 0;
	if (one_value(sh, word, v) < 0)
		return -1;
	if (what == '=' && v->value.count)
		variable_set(sh, r->name, v->value.item[0]);
	return 0;
}

/* scan_match, whose time counts. */
static bool
matches(struct shell *sh, const char *pattern, const char *s, size_t n)
{
	sh->steps += 1 + (int64_t)(n / 16 * (1 + strlen(pattern) / 16));
	return scan_match(pattern, s, n);
}

/* The ends that '#', '##', '%' and '%%' take off: the place where the rest begins or ends. */
static const char *
trim(struct shell *sh, const char *operation, const char *pattern, const char *s)
{
	bool front = *operation == '#', longest = operation[1] == *operation;
	size_t n = strlen(s);

	for (size_t k = 0; k <= n && !shell_over(sh); k++) {
		size_t len = longest ? n - k : k;

		if (front && matches(sh, pattern, s, len))
			return s + len;
		if (!front && matches(sh, pattern, s + n - len, len))
			return shell_keep(sh, s, n - len);
	}
	return s;
}

/* The longest match of the pattern at s; 0: none. */
static size_t
match_at(struct shell *sh, const char *pattern, const char *s)
{
	size_t len = strlen(s);

	while (len > 0 && !shell_over(sh) && !matches(sh, pattern, s, len))
		len--;
	return len;
}

static const char *
replace(struct shell *sh, const char *pattern, const char *with, bool all, const char *s)
{
	struct str out = { 0 };
	const char *value;
	bool done = false;

	while (*s && !shell_over(sh)) {
		size_t len = done ? 0 : match_at(sh, pattern, s);

		if (len) {
			str_adds(&out, with);
			s += len;
			done = !all;
		} else {
			str_addc(&out, *s++);
		}
	}
	value = shell_keep(sh, out.buf ? out.buf : "", out.len);
	str_release(&out);
	return value;
}

/* "/pattern/with" and "//pattern/with". */
static int
replace_each(struct shell *sh, const char *operation, struct parameter *v)
{
	bool all = operation[1] == '/';
	const char *from = operation + 1 + all, *slash = from, *pattern, *with;

	while (slash && *slash && *slash != '/')
		slash = scan_piece(slash);
	if (!slash)
		return shell_refuse(sh, "an expansion '${'");
	if (expand_pattern(sh, shell_keep(sh, from, (size_t)(slash - from)), &pattern) < 0 ||
	    expand_value(sh, *slash ? slash + 1 : slash, &with) < 0)
		return -1;
	if (is_hole(pattern) || is_hole(with)) {
		v->set = false;
		return 0;
	}
	for (int i = 0; i < v->value.count; i++)
		v->value.item[i] = replace(sh, pattern, with, all, v->value.item[i]);
	return 0;
}

/* ":from" and ":from:count", of a text or of a list. */
static int
part(struct shell *sh, const struct reference *r, struct parameter *v)
{
	const char *from = r->operation + 1, *colon = strchr(from, ':');
	bool list = v->many || (r->subscript && *r->subscript == '*');
	int64_t first, count = INT32_MAX, length;
	bool known, more = true;
	struct words all = v->value, some = { 0 };

	length = list ? all.count : (int64_t)strlen(all.item[0]);
	if (expand_arithmetic(sh, colon ? shell_keep(sh, from, (size_t)(colon - from)) : from,
		&known, &first) < 0 ||
	    (colon && expand_arithmetic(sh, colon + 1, &more, &count) < 0))
		return -1;
	v->set = known && more && count >= 0;
	if (!v->set)
		return 0;
	if (first < 0)
		first = first + length > 0 ? first + length : 0;
	/* Arguments are counted from 1. */
	first -= list && *r->name == '@' && first > 0;
	first = first > length ? length : first;
	count = count > length - first ? length - first : count;
	for (int64_t i = 0; list && i < count; i++)
		words_add(sh, &some, all.item[first + i]);
	if (!list)
		words_add(sh, &some, shell_keep(sh, all.item[0] + first, (size_t)count));
	v->value = some;
	return 0;
}

/* "^^" and ",,", and their short forms for the first letter. */
static void
change_case(struct shell *sh, const char *operation, struct parameter *v)
{
	bool all = operation[1] == *operation;
	char first = *operation == '^' ? 'a' : 'A';

	for (int i = 0; i < v->value.count; i++) {
		size_t n = strlen(v->value.item[i]);
		char *s = (char *)shell_keep(sh, v->value.item[i], n);

		for (size_t k = 0; *s && k < (all ? n : 1); k++)
			if (s[k] >= first && s[k] < first + 26)
				s[k] ^= 'a' ^ 'A';
		v->value.item[i] = s;
	}
}

/* An operation on a value without holes. */
static int
operate(struct shell *sh, const struct reference *r, struct parameter *v)
{
	const char *op = r->operation, *pattern;
	struct words all = v->value;

	/* The list of a variable is its own. */
	v->value = (struct words){ 0 };
	for (int i = 0; i < all.count; i++)
		words_add(sh, &v->value, all.item[i]);
	if (shell_over(sh) || !v->value.count)
		return 0;
	switch (*op) {
	case '#':
	case '%':
		if (expand_pattern(sh, op + (op[1] == *op ? 2 : 1), &pattern) < 0)
			return -1;
		v->set = !is_hole(pattern);
		for (int i = 0; v->set && i < v->value.count; i++)
			v->value.item[i] = trim(sh, op, pattern, v->value.item[i]);
		return 0;
	case '/': return replace_each(sh, op, v);
	case ':': return part(sh, r, v);
	case '^':
	case ',': change_case(sh, op, v); return 0;
	default: return shell_refuse(sh, "an expansion '${'");
	}
}

/* ${#A}: characters of a value, or elements of a list. */
static void
count_of(struct shell *sh, const struct reference *r, struct parameter *v)
{
	bool list = r->subscript && (*r->subscript == '@' || *r->subscript == '*');
	char text[24];

	if (!v->set && !list)
		return;
	snprintf(text, sizeof text, "%zu",
	    list                 ? (size_t)v->value.count
		: v->value.count ? strlen(v->value.item[0])
				 : 0);
	*v = (struct parameter){ .set = true };
	words_add(sh, &v->value, shell_keep(sh, text, strlen(text)));
}

/* The parts of the n characters; -1: no parameter. */
static int
split(struct shell *sh, const char *s, size_t n, struct reference *r)
{
	const char *text = shell_keep(sh, s, n), *end;
	size_t name;

	*r = (struct reference){ 0 };
	r->count = n > 1 && *text == '#' && (scan_name(text + 1) || text[1] == '@');
	r->indirect = n > 1 && *text == '!' && scan_name(text + 1);
	text += r->count || r->indirect;
	name = scan_name(text);
	if (!name)
		name = isdigit((unsigned char)*text) ? strspn(text, "0123456789") : *text != 0;
	if (!name || name > 255)
		return -1;
	r->name = shell_keep(sh, text, name);
	text += name;
	if (*text == '[') {
		end = strchr(text, ']');
		if (!end || r->indirect)
			return -1;
		r->subscript = shell_keep(sh, text + 1, (size_t)(end - text) - 1);
		text = end + 1;
	}
	r->operation = text;
	return 0;
}

/* ${!A}: the variable that A names. */
static int
indirect(struct shell *sh, struct reference *r, struct parameter *out)
{
	if (plain(sh, r, out) < 0)
		return -1;
	if (any_hole(out) || is_empty(out) || !scan_name(out->value.item[0])) {
		out->set = false;
		return 1;
	}
	r->name = out->value.item[0];
	return 0;
}

/* Defaults apply to what is not set; all other operations need a value. */
int
expand_parameter(struct shell *sh, const char *s, size_t n, struct parameter *out)
{
	struct reference r;
	const char *op;
	int rc = 0;

	if (split(sh, s, n, &r) < 0)
		return shell_refuse(sh, "an expansion '${'");
	if (r.indirect)
		rc = indirect(sh, &r, out);
	if (rc)
		return rc < 0 ? -1 : 0;
	if (plain(sh, &r, out) < 0)
		return -1;
	op = r.operation;
	if (r.count && !any_hole(out))
		count_of(sh, &r, out);
	else if (r.count)
		out->set = false;
	if (!*op || r.count)
		return 0;
	if (strchr("-=+?", *op) || (*op == ':' && op[1] && strchr("-=+?", op[1])))
		return default_value(sh, &r, out);
	if (!any_hole(out))
		return operate(sh, &r, out);
	out->set = false;
	return 0;
}
