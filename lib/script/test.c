/*
 * test.c - [ ... ] and [[ ... ]]
 *
 * An answer that depends on a hole, or on a file, is not known: files are not looked at.
 */
#include "lib/script/impl.h"
#include "lib/script/scan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 };

struct test {
	struct shell *sh;
	struct words word, pattern; /* pattern: as long, of [[; else empty */
	int i, depth;
};

static enum answer any_of(struct test *t);

static enum answer
answer_of(bool yes)
{
	return yes ? ANSWER_YES : ANSWER_NO;
}

static enum answer
negate(enum answer a)
{
	return a == ANSWER_UNKNOWN ? a : answer_of(a == ANSWER_NO);
}

static const char *
word_at(const struct test *t, int i)
{
	return i < t->word.count ? t->word.item[i] : "";
}

/* Takes the word when it is one of two. */
static bool
take(struct test *t, const char *a, const char *b)
{
	const char *w = word_at(t, t->i);
	bool is = *w && (!strcmp(w, a) || !strcmp(w, b));

	t->i += is;
	return is;
}

/* The index in the list, or -1. */
static int
one_of(const char *word, const char *const *list)
{
	for (int i = 0; list[i]; i++)
		if (!strcmp(word, list[i]))
			return i;
	return -1;
}

static enum answer
compare_numbers(int operation, const char *a, const char *b)
{
	char *end_a, *end_b;
	long long x, y;

	errno = 0;
	x = strtoll(a, &end_a, 10);
	y = strtoll(b, &end_b, 10);
	if (end_a == a || *end_a || end_b == b || *end_b || errno)
		return ANSWER_UNKNOWN;
	switch (operation) {
	case 0: return answer_of(x == y);
	case 1: return answer_of(x != y);
	case 2: return answer_of(x < y);
	case 3: return answer_of(x <= y);
	case 4: return answer_of(x > y);
	default: return answer_of(x >= y);
	}
}

/* Three words with an operator in the middle; false: these are none. */
static bool
binary(struct test *t, enum answer *out)
{
	static const char *const texts[] = { "=", "==", "!=", NULL };
	static const char *const numbers[] = { "-eq", "-ne", "-lt", "-le", "-gt", "-ge", NULL };
	static const char *const others[] = { "=~", "<", ">", "-nt", "-ot", "-ef", NULL };
	const char *a = word_at(t, t->i), *op = word_at(t, t->i + 1), *b = word_at(t, t->i + 2);
	int text = one_of(op, texts), number = one_of(op, numbers);

	if (t->i + 2 >= t->word.count || (text < 0 && number < 0 && one_of(op, others) < 0))
		return false;
	*out = ANSWER_UNKNOWN;
	if (!is_hole(a) && !is_hole(b) && number >= 0)
		*out = compare_numbers(number, a, b);
	else if (!is_hole(a) && !is_hole(b) && text >= 0)
		*out = answer_of(
		    (t->pattern.count ? scan_match(t->pattern.item[t->i + 2], a, strlen(a))
				      : !strcmp(a, b)) == (text < 2));
	t->i += 3;
	return true;
}

/* "-z" and "-n"; a value with more than a hole is not empty. */
static enum answer
is_empty(const char *value)
{
	bool hole = *value == HOLE_OPEN && strchr(value, HOLE_CLOSE)[1] == '\0';

	return hole ? ANSWER_UNKNOWN : answer_of(!*value);
}

static enum answer
unary(struct test *t)
{
	const char *op = word_at(t, t->i), *value = word_at(t, t->i + 1);

	if (op[0] == '-' && op[1] && !op[2] && t->i + 1 < t->word.count) {
		t->i += 2;
		if (op[1] == 'z' || op[1] == 'n')
			return op[1] == 'z' ? is_empty(value) : negate(is_empty(value));
		if (op[1] == 'v' && !is_hole(value)) {
			const struct variable *v = variable_find(t->sh, value);

			return v && v->set ? ANSWER_YES : ANSWER_UNKNOWN;
		}
		return ANSWER_UNKNOWN;
	}
	t->i++;
	return negate(is_empty(op));
}

static enum answer
one(struct test *t)
{
	enum answer a;

	if (t->i >= t->word.count)
		return ANSWER_NO;
	if (++t->depth > DEEPEST) {
		t->i = t->word.count;
		return ANSWER_UNKNOWN;
	}
	if (!binary(t, &a)) {
		if (take(t, "!", "!")) {
			a = negate(one(t));
		} else if (take(t, "(", "(")) {
			a = any_of(t);
			take(t, ")", ")");
		} else {
			a = unary(t);
		}
	}
	t->depth--;
	return a;
}

static enum answer
all_of(struct test *t)
{
	enum answer a = one(t);

	while (take(t, "-a", "&&")) {
		enum answer b = one(t);

		a = a == ANSWER_NO || b == ANSWER_NO ? ANSWER_NO : a == ANSWER_YES ? b : a;
	}
	return a;
}

static enum answer
any_of(struct test *t)
{
	enum answer a = all_of(t);

	while (take(t, "-o", "||")) {
		enum answer b = all_of(t);

		a = a == ANSWER_YES || b == ANSWER_YES ? ANSWER_YES : a == ANSWER_NO ? b : a;
	}
	return a;
}

enum answer
test_words(struct shell *sh, const struct words *w)
{
	struct test t = { .sh = sh, .word = *w };
	enum answer a = any_of(&t);

	return t.i < t.word.count ? ANSWER_UNKNOWN : a;
}

int
test_double(struct shell *sh, const struct word *w, enum answer *out)
{
	struct test t = { .sh = sh };

	for (; w; w = w->next) {
		const char *value, *pattern;

		if (expand_value(sh, w->text, &value) < 0 ||
		    expand_pattern(sh, w->text, &pattern) < 0)
			return -1;
		words_add(sh, &t.word, value);
		words_add(sh, &t.pattern, pattern);
	}
	*out = any_of(&t);
	if (t.i < t.word.count)
		*out = ANSWER_UNKNOWN;
	return 0;
}
