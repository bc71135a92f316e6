/*
 * pretok_rules.c - the masks for expressions that are not known
 *
 * Most expressions cut ASCII as a known one does, and differ in other scripts alone. So the pieces
 * of a few samples tell which rules could be theirs, an expression is made of these rules, and the
 * two automatons are compared: from the first states on, every ASCII character must have equal
 * entries. What windows accept is decided by the ASCII that they have read, so that no more is
 * needed. If only control characters differ, windows do without these.
 */
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "lib/token/pretok_impl.h"

#include <stdlib.h>
#include <string.h>

enum { ASCII = 0x80 };

/* --- rules from samples ----------------------------------------------------------------------- */

/* The length of the first piece. */
static size_t
first(const struct pretok *p, const char *text)
{
	return pretok_next(p, (const unsigned char *)text, strlen(text), 0);
}

/* The rules of a match at the beginning of each of some texts. */
static struct pretok_rules
sample(const struct pretok *p)
{
	struct pretok_rules r = { .form = first(p, "+a ") == 2 ? FORM_NEWER : FORM_GPT2 };
	size_t word;

	r.digits = first(p, "1111 ");
	if (r.form == FORM_NEWER) {
		r.apart = first(p, "  1") == 2;
		r.cased = first(p, "aA ") == 1;
		r.slashes = first(p, "!\n/ ") == 3;
	}
	word = r.cased;
	if (first(p, r.cased ? "a'sa." : "'sa.") == word + 2)
		r.contraction = CONTRACTION_LOWER;
	if (first(p, r.cased ? "a'SA." : "'SA.") == word + 2)
		r.contraction = CONTRACTION_ANY;
	return r;
}

/* True when from this state on a match is certain, whatever comes next. */
static bool
is_certain(const struct pretok *p, uint32_t state)
{
	bool certain = (p->automaton.row[state][AUTOMATON_END] & AUTOMATON_MATCH) != 0;

	for (int c = 0; c < p->num_classes; c++)
		certain &= (p->automaton.row[state][c] & AUTOMATON_MATCH) != 0;
	return certain;
}

static uint32_t
after(const struct pretok *p, uint32_t state, int c)
{
	return p->automaton.row[state][p->class[c]] & AUTOMATON_NEXT;
}

static void
set_add(struct simd_set *set, int c)
{
	set->row[0][c & 15] |= (unsigned char)(1 << (c >> 4));
}

static bool
set_has(const struct simd_set *set, int c)
{
	return set->row[0][c & 15] >> (c >> 4) & 1;
}

/* Runs of the characters that are a match by themselves. */
static struct pretok_rules
runs(const struct pretok *p)
{
	struct pretok_rules r = { .form = FORM_RUNS };

	for (int c = 0; c < ASCII; c++) {
		uint32_t next = after(p, AUTOMATON_START, c);

		if (next && is_certain(p, next))
			set_add(&r.run, c);
	}
	r.joins = !set_has(&r.run, ' ') && after(p, AUTOMATON_START, ' ');
	return r;
}

/* --- the expression of rules ------------------------------------------------------------------ */

/* c: of contractions, which stand first or, optional, at the end of words. */
static void
add_words(struct str *out, const struct pretok_rules *r, const char *c)
{
	const char *prefix = "[^\\r\\n\\p{L}\\p{N}]?",
		   *upper = "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]",
		   *lower = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]", *again = *c ? "?" : "";

	if (r->cased)
		str_addf(out, "%s%s*%s+%s%s|%s%s+%s*%s%s", prefix, upper, lower, c, again, prefix,
		    upper, lower, c, again);
	else
		str_addf(
		    out, "%s%s%s\\p{L}+", c, *c ? "|" : "", r->form == FORM_NEWER ? prefix : " ?");
}

static void
make_regex(struct str *out, const struct pretok_rules *r, const char *digits)
{
	static const char *const contraction[] = { [CONTRACTION_NONE] = "",
		[CONTRACTION_LOWER] = "(?:'s|'t|'re|'ve|'m|'ll|'d)",
		[CONTRACTION_ANY] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)" };

	if (r->form == FORM_RUNS) {
		str_adds(out, r->joins ? " ?[" : "[");
		for (int c = 0; c < ASCII; c++)
			if (set_has(&r->run, c))
				str_addf(out, "\\x{%x}", (unsigned)c);
		str_adds(out, "]+");
		return;
	}
	add_words(out, r, contraction[r->contraction]);
	if (!r->apart)
		str_addf(out, "%s%s", r->form == FORM_GPT2 ? "| ?" : "|", digits);
	str_adds(out, "| ?[^\\s\\p{L}\\p{N}]+");
	if (r->form == FORM_NEWER)
		str_addf(out, "[\\r\\n%s]*|\\s*[\\r\\n]+", r->slashes ? "/" : "");
	str_adds(out, "|\\s+(?!\\S)|\\s+");
}

/* --- the comparison --------------------------------------------------------------------------- */

/* Two automatons, and the pairs of their states that the same text leads to. */
struct pairs {
	const struct pretok *p, *q;
	const struct simd_set *without; /* characters that are not compared */
	bool *seen;
	uint32_t *found;
	size_t count;
};

static void
add_pair(struct pairs *x, uint32_t a, uint32_t b)
{
	uint32_t pair = a * (uint32_t)x->q->automaton.num_states + b;

	if (!x->seen[pair])
		x->found[x->count++] = pair;
	x->seen[pair] = true;
}

/* True when all characters have equal entries, up to the numbers of states; the pairs of the next
 * states are added. */
static bool
same_rows(struct pairs *x, uint32_t a, uint32_t b)
{
	if (is_certain(x->p, a) != is_certain(x->q, b))
		return false;
	for (int c = 0; c < ASCII; c++) {
		uint32_t m = x->p->automaton.row[a][x->p->class[c]],
			 n = x->q->automaton.row[b][x->q->class[c]];

		if (set_has(x->without, c))
			continue;
		if ((m & AUTOMATON_MATCH) != (n & AUTOMATON_MATCH) ||
		    !(m & AUTOMATON_NEXT) != !(n & AUTOMATON_NEXT))
			return false;
		if (m & AUTOMATON_NEXT)
			add_pair(x, m & AUTOMATON_NEXT, n & AUTOMATON_NEXT);
	}
	return true;
}

/* True when both cut ASCII alike, without some characters. */
static bool
alike(const struct pretok *p, const struct pretok *q, const struct simd_set *without)
{
	uint32_t states = (uint32_t)q->automaton.num_states;
	size_t size = (size_t)p->automaton.num_states * states;
	struct pairs x = { p, q, without, mem_zalloc(size, sizeof *x.seen),
		mem_alloc(size, sizeof *x.found), 0 };
	bool same = true;

	add_pair(&x, AUTOMATON_START, AUTOMATON_START);
	for (size_t i = 0; i < x.count && same; i++)
		same = same_rows(&x, x.found[i] / states, x.found[i] % states);
	free(x.seen);
	free(x.found);
	return same;
}

/* Characters that no match takes are one piece if they are next to one another. */
static bool
one_gap(const struct pretok *p, const struct simd_set *without)
{
	for (int c = 0; c < ASCII; c++)
		if (!set_has(without, c) && p->gap[p->class[c]] != p->gap[p->class[' ']])
			return false;
	return true;
}

/* Tries the rules with all of ASCII, then without the control characters that are not white. */
static bool
prove(const struct pretok *p, struct pretok_rules *r)
{
	const char *digits = r->form == FORM_GPT2 ? "\\p{N}+"
	    : r->digits == 1                      ? "\\p{N}"
						  : "\\p{N}{1,3}";
	struct pretok_step step[2] = { { .regex = digits, .len = strlen(digits) } };
	struct str regex = { 0 };
	struct pretok *q;
	struct err why;
	bool same;

	make_regex(&regex, r, digits);
	step[r->apart] = (struct pretok_step){ .regex = regex.buf, .len = regex.len };
	q = pretok_tables(step, 1 + r->apart, &why);
	same = q && alike(p, q, &r->alien);
	if (q && !same) {
		r->aliens = true;
		for (int c = 0; c < ' '; c++)
			if (c < '\t' || c > '\r')
				set_add(&r->alien, c);
		set_add(&r->alien, ASCII - 1);
		same = alike(p, q, &r->alien);
	}
	pretok_free(q);
	str_release(&regex);
	return same && (r->form != FORM_RUNS || one_gap(p, &r->alien));
}

/* Not worth it unless letters are words. */
void
pretok_find_rules(struct pretok *p)
{
	struct pretok_rules r = sample(p);
	bool words = first(p, "aa ") == 2;

	if (words && (r.digits == 1 || r.digits == 3 || r.form == FORM_GPT2))
		p->windows = prove(p, &r);
	if (words && !p->windows) {
		r = runs(p);
		p->windows = set_has(&r.run, 'a') && prove(p, &r);
	}
	p->rules = r;
}
