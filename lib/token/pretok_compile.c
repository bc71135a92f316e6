/*
 * pretok_compile.c - the tables of a pre-tokenizer, from its steps
 *
 * Several steps become one automaton. A step that isolates runs of a set, [a]+, cuts a text into
 * parts of which the steps after it see only one: to them the characters of the others are the end
 * of the text. So the last expression is compiled once for each part, with the characters of that
 * part alone, and the alternatives are one expression, because they begin with different
 * characters. A step that isolates one or some characters of a set, such as \p{N}{1,3}, makes
 * pieces that the steps after it must leave whole.
 */
#include "lib/base/mem.h"
#include "lib/token/pretok_impl.h"

#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 16, CLASSES_MAX = AUTOMATON_END, ASCII = 0x80 };

/* Code points up to the first of the next interval. */
struct interval {
	uint32_t first;
	int class;
};

/* Characters that are cut apart from all others. */
struct part {
	uint64_t within; /* classes */
	int step;        /* whose expression makes its pieces */
	int max;         /* 0 for the last step, else the most characters of a piece */
};

struct plan {
	struct expression x[PRETOK_STEPS];
	uint64_t set[PRETOK_STEPS][EXPRESSION_SETS]; /* the classes of each set */
	int count;
	struct interval *interval;
	size_t num_intervals;
	uint64_t classes;
	int num_classes;
	struct part part[PARTS_MAX];
	int num_parts;
};

/* --- classes ---------------------------------------------------------------------------------- */

/* A place where sets begin or end, as bits. */
struct edge {
	uint32_t at;
	uint64_t sets;
};

static int
compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* The edges of all sets in order; -1 when there are too many sets. */
static int
list_edges(const struct plan *plan, struct edge **out, size_t *count)
{
	struct edge *edge = NULL;
	size_t n = 0, cap = 1;
	int set = 0;

	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->x[i].num_sets; k++)
			cap += 2 * plan->x[i].set[k].count;
	edge = mem_alloc(cap, sizeof *edge);
	edge[n++] = (struct edge){ 0, 0 };
	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->x[i].num_sets; k++, set++)
			for (size_t r = 0; r < plan->x[i].set[k].count; r++) {
				struct point_range range = plan->x[i].set[k].range[r];
				uint64_t bit = (uint64_t)1 << (set & 63);

				edge[n++] = (struct edge){ range.first, bit };
				edge[n++] = (struct edge){ range.last + 1, bit };
			}
	qsort(edge, n, sizeof *edge, compare_edges);
	*out = edge;
	*count = n;
	return set > EXPRESSION_SETS ? -1 : 0;
}

/* Characters that are in the same sets are a class. */
static int
make_classes(struct plan *plan, struct err *e)
{
	uint64_t sets[CLASSES_MAX] = { 0 }, now = 0;
	struct edge *edge;
	size_t n;
	int rc = list_edges(plan, &edge, &n), set = 0;

	plan->interval = mem_alloc(n, sizeof *plan->interval);
	for (size_t i = 0; i < n && rc == 0; i++) {
		int class = 0;

		now ^= edge[i].sets;
		if (edge[i].at > POINTS_LAST || (i + 1 < n && edge[i + 1].at == edge[i].at))
			continue;
		while (class < plan->num_classes && sets[class] != now)
			class ++;
		if (class == CLASSES_MAX) {
			rc = -1;
			break;
		}
		sets[class] = now;
		plan->num_classes += class == plan->num_classes;
		plan->interval[plan->num_intervals++] = (struct interval){ edge[i].at, class };
	}
	free(edge);
	if (rc < 0)
		return err_set(e, "too many sets of characters");
	plan->classes = ((uint64_t)1 << plan->num_classes) - 1;
	for (int i = 0; i < plan->count; i++)
		for (int k = 0; k < plan->x[i].num_sets; k++, set++)
			for (int c = 0; c < plan->num_classes; c++)
				plan->set[i][k] |= (sets[c] >> set & 1) << c;
	return 0;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* For [a]+, [a] and [a]{1,n}: the classes of a, and the most characters of a match. False for any
 * other expression. */
static bool
is_simple(const struct plan *plan, int step, uint64_t *set, int *max)
{
	const struct expression *x = &plan->x[step];
	const struct expression_node *node = &x->node[x->root];

	*max = 1;
	if (node->kind == EXPRESSION_REPEAT && node->min == 1 && !node->lazy) {
		*max = node->max;
		node = &x->node[node->part];
	}
	if (node->kind != EXPRESSION_SET)
		return false;
	*set = plan->set[step][node->set];
	return true;
}

static int
add_part(struct plan *plan, struct part part, struct err *e)
{
	if (part.within == 0)
		return 0;
	if (plan->num_parts == PARTS_MAX)
		return err_set(e, "more than %d kinds of parts", PARTS_MAX);
	plan->part[plan->num_parts++] = part;
	return 0;
}

/* Divides the parts by a step that is not the last. */
static int
divide(struct plan *plan, int step, struct err *e)
{
	int parts = plan->num_parts, max;
	uint64_t set;

	if (!is_simple(plan, step, &set, &max))
		return err_set(e, "step %d cuts at more than characters of a set", step + 1);
	for (int i = 0; i < parts; i++) {
		struct part *part = &plan->part[i], inner = *part;

		inner.within &= set;
		if (part->max == 0) {
			part->within &= ~set;
			inner.step = max < 0 ? plan->count - 1 : step;
			inner.max = max < 0 ? 0 : max;
			if (add_part(plan, inner, e) < 0)
				return -1;
		} else if (part->max > 1 && inner.within &&
		    (inner.within != part->within || (max >= 0 && max < part->max))) {
			return err_set(e, "step %d cuts the pieces of an earlier one", step + 1);
		}
	}
	return 0;
}

/* Checks that the last step leaves the pieces of the earlier ones whole. */
static int
check_last(const struct plan *plan, struct err *e)
{
	int last = plan->count - 1, rc = 0;

	for (int i = 0; i < plan->num_parts && rc == 0; i++) {
		const struct part *part = &plan->part[i];
		struct automaton a;

		if (part->max <= 1)
			continue;
		rc = automaton_build(&a,
		    &(struct automaton_part){ &plan->x[last], plan->set[last], part->within }, 1,
		    part->within, e);
		if (rc == 0 && !automaton_keeps(&a, part->within))
			rc = err_set(e, "the last step cuts the pieces of an earlier one");
		automaton_release(&a);
	}
	return rc;
}

/* All parts, each without the characters of the others. */
static int
make_parts(struct plan *plan, struct automaton *a, struct err *e)
{
	struct automaton_part part[PARTS_MAX];
	int count = 0;

	add_part(plan, (struct part){ plan->classes, plan->count - 1, 0 }, e);
	for (int i = 0; i + 1 < plan->count; i++)
		if (divide(plan, i, e) < 0)
			return -1;
	if (check_last(plan, e) < 0)
		return -1;
	for (int i = 0; i < plan->num_parts; i++)
		if (plan->part[i].within)
			part[count++] = (struct automaton_part){ &plan->x[plan->part[i].step],
				plan->set[plan->part[i].step], plan->part[i].within };
	return automaton_build(a, part, count, plan->classes, e);
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Classes that every state treats alike become one; map has the new numbers. */
static void
unite_classes(struct plan *plan, struct pretok *p, int map[CLASSES_MAX])
{
	struct automaton *a = &p->automaton;
	int count = 0;

	for (int c = 0; c < plan->num_classes; c++) {
		unsigned char gap = 0;
		int k = 0;

		for (int i = 0; i < plan->num_parts; i++)
			if (plan->part[i].within >> c & 1)
				gap = (unsigned char)i;
		for (; k < count; k++) {
			int s = 0;

			while (s < a->num_states && a->row[s][c] == a->row[s][k])
				s++;
			if (s == a->num_states && p->gap[k] == gap)
				break;
		}
		for (int s = 0; s < a->num_states; s++)
			a->row[s][k] = a->row[s][c];
		p->gap[k] = gap;
		count += k == count;
		map[c] = k;
	}
	plan->num_classes = count;
}

/* Where a piece is certain to end before the character, the entry leads to the state after the
 * first character of the next piece. */
static void
make_fast(struct pretok *p, int num_classes)
{
	const struct automaton *a = &p->automaton;

	p->fast = mem_zalloc((size_t)a->num_states, sizeof *p->fast);
	for (int s = 0; s < a->num_states; s++)
		for (int c = 0; c < num_classes; c++) {
			uint32_t entry = a->row[s][c], next = entry & AUTOMATON_NEXT,
				 first = a->row[AUTOMATON_START][c] & AUTOMATON_NEXT;

			if (next)
				p->fast[s][c] = next | (entry & AUTOMATON_MATCH) >> 1;
			else if (entry & AUTOMATON_MATCH && first)
				p->fast[s][c] = PRETOK_END | first;
			else
				p->fast[s][c] = PRETOK_SLOW;
		}
}

/* The entry for two bytes, by their classes. */
static uint32_t
pair_entry(const struct pretok *p, int state, int a, int b)
{
	uint32_t one = a < 0 ? PRETOK_SLOW : p->fast[state][a], two;

	if (one & PRETOK_SLOW || b < 0)
		return PRETOK_SLOW;
	two = p->fast[one & PRETOK_STATE][b];
	if (two & PRETOK_SLOW)
		return PRETOK_SLOW;
	return (one & (PRETOK_END | PRETOK_MATCH)) | (two & (PRETOK_END | PRETOK_MATCH)) >> 2 |
	    (two & PRETOK_STATE) * p->square;
}

/* The last of the columns is for bytes that are not ASCII. */
static int
make_pairs(struct pretok *p, struct err *e)
{
	int column[CLASSES_MAX], class[CLASSES_MAX + 1], width = 0;

	memset(column, -1, sizeof column);
	for (int i = 0; i < ASCII; i++)
		if (column[p->class[i]] < 0) {
			class[width] = p->class[i];
			column[p->class[i]] = width++;
		}
	class[width++] = -1;
	p->square = (uint32_t)(width * width);
	if ((uint32_t)p->automaton.num_states * p->square > PRETOK_PAIRS_MAX)
		return err_set(e, "too many states for the table of pairs");
	for (int i = 0; i < 256; i++) {
		int k = i < ASCII ? column[p->class[i]] : width - 1;

		p->first[i] = (uint16_t)(k * width);
		p->second[i] = (uint16_t)k;
	}
	p->pair = mem_alloc((size_t)p->automaton.num_states * p->square, sizeof *p->pair);
	for (int s = 0; s < p->automaton.num_states; s++)
		for (int a = 0; a < width; a++)
			for (int b = 0; b < width; b++)
				p->pair[(uint32_t)s * p->square + (uint32_t)(a * width + b)] =
				    pair_entry(p, s, class[a], class[b]);
	return 0;
}

/* Fills the tables of characters and states. */
static int
make_tables(struct plan *plan, struct pretok *p, struct err *e)
{
	int map[CLASSES_MAX];

	if (make_parts(plan, &p->automaton, e) < 0)
		return -1;
	unite_classes(plan, p, map);
	for (size_t i = 0; i < plan->num_intervals; i++) {
		struct interval x = plan->interval[i];
		uint32_t end =
		    i + 1 < plan->num_intervals ? plan->interval[i + 1].first : UNICODE_CODE_POINTS;

		memset(p->class + x.first, map[x.class], end - x.first);
	}
	p->num_classes = plan->num_classes;
	make_fast(p, plan->num_classes);
	return make_pairs(p, e);
}

static int
read_steps(struct plan *plan, const struct pretok_step *step, int count, struct err *e)
{
	if (count > PRETOK_STEPS)
		return err_set(e, "more than %d steps", PRETOK_STEPS);
	for (plan->count = 0; plan->count < count; step++) {
		struct expression *x = &plan->x[plan->count++];

		if (step->set)
			expression_of_set(x, step->set, step->run);
		else if (expression_parse(x, step->regex, step->len, e) < 0)
			return -1;
	}
	return 0;
}

/* The plan is needed only here. */
struct pretok *
pretok_tables(const struct pretok_step *step, int count, struct err *e)
{
	struct plan *plan = mem_zalloc(1, sizeof *plan);
	struct pretok *p = mem_zalloc_whole(1, sizeof *p);
	bool ok;

	ok = read_steps(plan, step, count, e) == 0 && make_classes(plan, e) == 0 &&
	    make_tables(plan, p, e) == 0;
	for (int i = 0; i < plan->count; i++)
		expression_release(&plan->x[i]);
	free(plan->interval);
	free(plan);
	if (ok)
		return p;
	pretok_free(p);
	return NULL;
}

struct pretok *
pretok_compile(const struct pretok_step *step, int count, struct err *e)
{
	struct pretok *p = pretok_tables(step, count, e);

	if (p)
		pretok_find_rules(p);
	return p;
}

/* Only the pages of the table that a text touches occupy a cache. NULL is fine. */
void
pretok_free(struct pretok *p)
{
	if (!p)
		return;
	automaton_release(&p->automaton);
	free(p->fast);
	free(p->pair);
	free(p);
}

bool
pretok_covers(const struct pretok *p)
{
	uint64_t classes = 0;

	for (uint32_t cp = 0; cp < UNICODE_CODE_POINTS; cp++)
		classes |= (uint64_t)1 << p->class[cp];
	return automaton_covers(&p->automaton, classes);
}
