/*
 * arith.c - $((...))
 *
 * Whole numbers of 64 bits with + - * / % ** and comparisons; a name is its variable. What
 * overflows, divides by zero or names a variable without a number is not known, and becomes a hole.
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 };

struct arith {
	struct shell *sh;
	const char *p;
	bool known;
	int depth;
};

static int64_t sum(struct arith *a);

static void
blanks(struct arith *a)
{
	a->p += strspn(a->p, " \t\r\n");
}

static int64_t
unknown(struct arith *a)
{
	a->known = false;
	return 0;
}

/* The number that a variable holds. */
static int64_t
variable(struct arith *a)
{
	size_t n = scan_name(a->p);
	const char *name = shell_keep(a->sh, a->p, n), *end;
	struct parameter value = { 0 };
	long long v;

	a->p += n;
	if (expand_parameter(a->sh, name, n, &value) < 0 || !value.set || value.value.count != 1)
		return unknown(a);
	errno = 0;
	v = strtoll(value.value.item[0], (char **)&end, 10);
	return end == value.value.item[0] || *end || errno ? unknown(a) : v;
}

static int64_t
number(struct arith *a)
{
	char *end;
	long long v;

	errno = 0;
	v = strtoll(a->p, &end, 0);
	a->p = end;
	return errno ? unknown(a) : v;
}

/* A number, a name, a parenthesis, or one of them with a sign. */
static int64_t
factor(struct arith *a)
{
	int64_t v = 0;

	blanks(a);
	if (++a->depth > DEEPEST)
		return unknown(a);
	if (*a->p == '-' || *a->p == '+') {
		bool minus = *a->p++ == '-';

		v = factor(a);
		if (minus && __builtin_sub_overflow((int64_t)0, v, &v))
			v = unknown(a);
	} else if (*a->p == '!') {
		a->p++;
		v = !factor(a);
	} else if (*a->p == '(') {
		a->p++;
		v = sum(a);
		blanks(a);
		if (*a->p++ != ')') {
			a->p--;
			v = unknown(a);
		}
	} else if (isdigit((unsigned char)*a->p)) {
		v = number(a);
	} else {
		v = scan_name(a->p) ? variable(a) : unknown(a);
	}
	a->depth--;
	return v;
}

static int64_t
power(struct arith *a)
{
	int64_t v = factor(a), n, out = 1;

	blanks(a);
	if (a->p[0] != '*' || a->p[1] != '*')
		return v;
	a->p += 2;
	n = factor(a);
	if (n < 0 || n > 64)
		return unknown(a);
	while (n-- > 0)
		if (__builtin_mul_overflow(out, v, &out))
			return unknown(a);
	return out;
}

static int64_t
product(struct arith *a)
{
	int64_t v = power(a), w;

	for (blanks(a); a->known && *a->p && strchr("*/%", *a->p); blanks(a)) {
		char sign = *a->p++;

		w = power(a);
		if (sign == '*' ? __builtin_mul_overflow(v, w, &v)
				: w == 0 || (v == INT64_MIN && w == -1))
			return unknown(a);
		if (sign != '*')
			v = sign == '/' ? v / w : v % w;
	}
	return v;
}

static int64_t
total(struct arith *a)
{
	int64_t v = product(a), w;

	for (blanks(a); a->known && (*a->p == '+' || *a->p == '-'); blanks(a)) {
		bool minus = *a->p++ == '-';

		w = product(a);
		if (minus ? __builtin_sub_overflow(v, w, &v) : __builtin_add_overflow(v, w, &v))
			return unknown(a);
	}
	return v;
}

/* One comparison at most, as launch scripts have. */
static int64_t
sum(struct arith *a)
{
	static const char *const operators[] = { "==", "!=", "<=", ">=", "<", ">" };
	int64_t v = total(a), w;

	for (size_t i = 0; a->known && i < sizeof operators / sizeof *operators; i++) {
		if (strncmp(a->p, operators[i], strlen(operators[i])) != 0)
			continue;
		a->p += strlen(operators[i]);
		w = total(a);
		switch (i) {
		case 0: return v == w;
		case 1: return v != w;
		case 2: return v <= w;
		case 3: return v >= w;
		case 4: return v < w;
		default: return v > w;
		}
	}
	return v;
}

bool
arithmetic(struct shell *sh, const char *text, int64_t *out)
{
	struct arith a = { .sh = sh, .p = text, .known = true };

	*out = sum(&a);
	blanks(&a);
	return a.known && !*a.p;
}

int
expand_arithmetic(struct shell *sh, const char *text, bool *known, int64_t *out)
{
	const char *value;

	*out = 0;
	if (expand_value(sh, text, &value) < 0)
		return -1;
	*known = !is_hole(value) && arithmetic(sh, value, out);
	return 0;
}

/* The value of a variable changed by the operator after its name; NULL: there is none. */
static const char *
change(const char *s, char *sign)
{
	s += strspn(s, " \t");
	*sign = *s;
	if (!strncmp(s, "++", 2) || !strncmp(s, "--", 2))
		return "1";
	if ((*s == '+' || *s == '-') && s[1] == '=')
		return s + 2;
	return *s == '=' && s[1] != '=' ? s + 1 : NULL;
}

int
expand_statement(struct shell *sh, const char *text, bool *known, int64_t *out)
{
	const char *name, *operand;
	struct str sum_of = { 0 };
	size_t n;
	char sign, value[24];
	int rc;

	text += strspn(text, " \t");
	n = scan_name(text);
	operand = n ? change(text + n, &sign) : NULL;
	if (!operand)
		return expand_arithmetic(sh, *text ? text : "1", known, out);
	name = shell_keep(sh, text, n);
	if (sign != '=')
		str_addf(&sum_of, "%s %c ", name, sign);
	str_adds(&sum_of, operand);
	rc = expand_arithmetic(sh, sum_of.buf, known, out);
	str_release(&sum_of);
	if (rc == 0 && *known && !shell_over(sh)) {
		snprintf(value, sizeof value, "%lld", (long long)*out);
		variable_set(sh, name, shell_keep(sh, value, strlen(value)));
	}
	return rc;
}
