/*
 * automaton.c - expressions as one table
 *
 * First a program: each instruction takes a character of a mask of classes, looks at the next
 * character, or goes two ways, the preferred one first. Then the table: its states are lists of
 * instructions before their free moves, because looking ahead depends on the next character.
 * States with equal rows are united until there are none.
 */
#include "lib/base/mem.h"
#include "lib/token/automaton.h"

#include <stdlib.h>
#include <string.h>

enum { PROGRAM_MAX = 1000 };

enum operation { TAKE, LOOK, BOTH, MATCH };

struct instruction {
	enum operation op;
	uint64_t mask; /* classes; of LOOK the end of the text too */
	int next, other;
};

struct program {
	struct instruction in[PROGRAM_MAX];
	int count;
	const struct automaton_part *part;
	bool full;
};

/* --- the program ------------------------------------------------------------------------------ */

static int
add(struct program *g, struct instruction in)
{
	if (g->count == PROGRAM_MAX) {
		g->full = true;
		return 0;
	}
	g->in[g->count] = in;
	return g->count++;
}

static int build(struct program *g, int node, int next);

/* Parts from a node of a list on, then next. */
static int
build_list(struct program *g, int node, int next)
{
	if (node < 0 || g->full)
		return next;
	return build(g, node, build_list(g, g->part->x->node[node].next, next));
}

/* Alternatives from a node of a list on. */
static int
build_either(struct program *g, int node, int next)
{
	int first = build(g, node, next), other = g->part->x->node[node].next;

	if (other < 0 || g->full)
		return first;
	other = build_either(g, other, next);
	return add(g, (struct instruction){ BOTH, 0, first, other });
}

/* A place where a repetition continues or ends. */
static int
add_choice(struct program *g, bool lazy, int on, int end)
{
	return add(g, (struct instruction){ BOTH, 0, lazy ? end : on, lazy ? on : end });
}

/* The required times, then the optional ones, each inside the one before it. */
static int
build_repeat(struct program *g, const struct expression_node *r, int next)
{
	int at = next;

	if (r->max == EXPRESSION_NO_END) {
		int choice = add_choice(g, r->lazy, 0, next), body = build(g, r->part, choice);

		if (!g->full)
			*(r->lazy ? &g->in[choice].other : &g->in[choice].next) = body;
		at = r->min ? body : choice;
	} else {
		for (int i = r->min; i < r->max && !g->full; i++)
			at = add_choice(g, r->lazy, build(g, r->part, at), next);
	}
	for (int i = r->max == EXPRESSION_NO_END; i < r->min && !g->full; i++)
		at = build(g, r->part, at);
	return at;
}

/* The instructions of a node that continue at next; returns the first. To a look ahead, characters
 * outside the part are the end of the text. */
static int
build(struct program *g, int node, int next)
{
	const struct expression_node *x = &g->part->x->node[node];
	uint64_t within = g->part->within, mask, end = (uint64_t)1 << AUTOMATON_END;

	if (g->full)
		return 0;
	switch (x->kind) {
	case EXPRESSION_SET:
		return add(g, (struct instruction){ TAKE, g->part->set[x->set] & within, next, 0 });
	case EXPRESSION_LOOK:
		mask = (g->part->set[x->set] & within) | (x->at_end ? ~within | end : 0);
		return add(g, (struct instruction){ LOOK, mask, next, 0 });
	case EXPRESSION_JOIN: return build_list(g, x->part, next);
	case EXPRESSION_EITHER: return build_either(g, x->part, next);
	default: return build_repeat(g, x, next);
	}
}

/* All parts as alternatives; returns the first instruction. */
static int
build_parts(struct program *g, const struct automaton_part *part, int count)
{
	int match = add(g, (struct instruction){ MATCH, 0, 0, 0 }), at = -1;

	for (int i = 0; i < count; i++) {
		int first;

		g->part = &part[i];
		first = build(g, part[i].x->root, match);
		at = at < 0 ? first : add(g, (struct instruction){ BOTH, 0, at, first });
	}
	return at;
}

/* --- the table -------------------------------------------------------------------------------- */

/* A list of instructions; the empty one is the dead state. */
struct list {
	int count;
	uint16_t at[];
};

struct tables {
	const struct program *g;
	struct automaton *a;
	struct list *state[AUTOMATON_STATES];
	/* the step that is being made */
	uint64_t class; /* a bit */
	bool seen[PROGRAM_MAX], taken[PROGRAM_MAX], match;
	struct list *next;
};

/* Follows the free moves from an instruction; false after a match, which ends the list. */
static bool
follow(struct tables *t, int at)
{
	const struct instruction *in = &t->g->in[at];

	if (t->seen[at])
		return true;
	t->seen[at] = true;
	switch (in->op) {
	case MATCH: t->match = true; return false;
	case BOTH: return follow(t, in->next) && follow(t, in->other);
	case LOOK: return !(in->mask & t->class) || follow(t, in->next);
	default:
		if ((in->mask & t->class) && !t->taken[in->next]) {
			t->taken[in->next] = true;
			t->next->at[t->next->count++] = (uint16_t)in->next;
		}
		return true;
	}
}

/* The state of the list, made if it is new; -1 when there are too many. No step leads back to the
 * first state, so that being in it means that nothing has been read. */
static int
find_state(struct tables *t, const struct list *list)
{
	size_t size = sizeof *list + (size_t)list->count * sizeof *list->at;
	int i = 0;

	for (; i < t->a->num_states; i++)
		if (i != AUTOMATON_START && t->state[i]->count == list->count &&
		    !memcmp(t->state[i]->at, list->at, (size_t)list->count * sizeof *list->at))
			return i;
	if (i == AUTOMATON_STATES)
		return -1;
	t->state[i] = mem_alloc(size, 1);
	memcpy(t->state[i], list, size);
	return t->a->num_states++;
}

/* The entry of a state and a class. */
static int
step(struct tables *t, int state, int class)
{
	const struct list *list = t->state[state];
	int next;

	t->class = (uint64_t)1 << class;
	t->match = false;
	t->next->count = 0;
	memset(t->seen, 0, sizeof t->seen);
	memset(t->taken, 0, sizeof t->taken);
	for (int i = 0; i < list->count && follow(t, list->at[i]); i++)
		;
	next = find_state(t, t->next);
	if (next < 0)
		return -1;
	t->a->row[state][class] = (uint32_t)next | (t->match ? AUTOMATON_MATCH : 0);
	return 0;
}

/* Makes states until no step leads to a new one. */
static int
make_states(struct tables *t, int start, uint64_t classes)
{
	struct list *first = t->next;
	int rc;

	first->count = 0;
	find_state(t, first);
	first->at[first->count++] = (uint16_t)start;
	find_state(t, first);
	rc = 0;
	for (int s = 0; s < t->a->num_states && rc == 0; s++)
		for (int c = 0; c < AUTOMATON_CLASSES && rc == 0; c++)
			if (classes >> c & 1 || c == AUTOMATON_END)
				rc = step(t, s, c);
	return rc;
}

/* True when two states are alike as far as is known: their blocks, and those that they lead to. */
static bool
same_block(const struct automaton *a, const int *block, int s, int t)
{
	if (block[s] != block[t])
		return false;
	for (int c = 0; c < AUTOMATON_CLASSES; c++)
		if ((a->row[s][c] & AUTOMATON_MATCH) != (a->row[t][c] & AUTOMATON_MATCH) ||
		    block[a->row[s][c] & AUTOMATON_NEXT] != block[a->row[t][c] & AUTOMATON_NEXT])
			return false;
	return true;
}

/* Equal for states that are alike, and for few others, so that most are told apart by it. */
static uint64_t
block_hash(const struct automaton *a, const int *block, int s)
{
	uint64_t h = (uint64_t)block[s];

	for (int c = 0; c < AUTOMATON_CLASSES; c++)
		h = (h ^ (a->row[s][c] & AUTOMATON_MATCH) ^
			(uint64_t)block[a->row[s][c] & AUTOMATON_NEXT]) *
		    0x9e3779b97f4a7c15u;
	return h;
}

/* Renumbers states so that those with equal rows, up to the numbers of equal states, are one.
 * State 0 and 1 stay. */
static void
unite_states(struct automaton *a)
{
	int block[AUTOMATON_STATES], next[AUTOMATON_STATES], count = 2, before = 0;
	uint64_t hash[AUTOMATON_STATES];

	for (int s = 0; s < a->num_states; s++)
		block[s] = s == AUTOMATON_START;
	while (count != before) {
		int first[AUTOMATON_STATES];

		before = count;
		count = 0;
		for (int s = 0; s < a->num_states; s++) {
			int k = 0;

			hash[s] = block_hash(a, block, s);
			while (k < count &&
			    (hash[s] != hash[first[k]] || !same_block(a, block, s, first[k])))
				k++;
			if (k == count)
				first[count++] = s;
			next[s] = k;
		}
		memcpy(block, next, (size_t)a->num_states * sizeof *block);
	}
	for (int s = 0; s < a->num_states; s++)
		for (int c = 0; c < AUTOMATON_CLASSES; c++)
			a->row[block[s]][c] = (a->row[s][c] & AUTOMATON_MATCH) |
			    (uint32_t)block[a->row[s][c] & AUTOMATON_NEXT];
	a->num_states = count;
}

/* --- the bound on steps ----------------------------------------------------------------------- */

/*
 * A run may continue after a match in the hope of a longer one, and what it passed is then read
 * again. That is at most a constant times if, while a run continues without a match, the runs that
 * read the same characters again keep matching. Pairs of the states of two runs are the nodes of a
 * graph; an edge is a character at which the first one continues without a match. A cycle of edges
 * at which the second one has no match either is what must not be.
 */
struct pairs {
	const struct automaton *a;
	uint64_t classes;
	unsigned char *mark;    /* by pair: not seen, found, on the path, done */
	uint32_t *path, *class; /* of the search for a cycle: pairs, and their next edges */
	uint32_t *found;        /* pairs to begin at */
	size_t num_found;
};

enum { NOT_SEEN, FOUND, ON_PATH, DONE };

/* Where a run is after the first character of a piece, or before it if it has no match there. */
static uint32_t
restart(const struct automaton *a, int class)
{
	uint32_t next = a->row[AUTOMATON_START][class] & AUTOMATON_NEXT;

	return next ? next : AUTOMATON_START;
}

static void
find_pair(struct pairs *p, uint32_t first, uint32_t second)
{
	uint32_t pair = first * (uint32_t)p->a->num_states + second;

	if (p->mark[pair] == NOT_SEEN) {
		p->mark[pair] = FOUND;
		p->found[p->num_found++] = pair;
	}
}

enum edge { NO_EDGE, PROGRESS, STAYS, UNKNOWN };

/* The edge of a pair and a class, and where it leads. */
static enum edge
follow_edge(const struct pairs *p, uint32_t pair, int class, uint32_t to[2])
{
	const struct automaton *a = p->a;
	uint32_t n = (uint32_t)a->num_states, second = pair % n;
	uint32_t x = a->row[pair / n][class], y = a->row[second][class];
	bool progress = y & AUTOMATON_MATCH || second == AUTOMATON_START;

	if (!(p->classes >> class & 1) || x & AUTOMATON_MATCH || x == AUTOMATON_DEAD)
		return NO_EDGE;
	to[0] = x;
	to[1] = y & AUTOMATON_NEXT;
	if (to[1] == AUTOMATON_DEAD) {
		if (!progress)
			return UNKNOWN;
		to[1] = restart(a, class);
	}
	return progress ? PROGRESS : STAYS;
}

/* Searches in depth from a pair; false for a cycle. Ends of edges with progress are found. */
static bool
search(struct pairs *p, uint32_t pair)
{
	uint32_t to[2];
	size_t depth = 1;

	p->path[0] = pair;
	p->class[0] = 0;
	p->mark[pair] = ON_PATH;
	while (depth > 0) {
		uint32_t at = p->path[depth - 1], class = p->class[depth - 1]++, next;
		enum edge edge;

		if (class == AUTOMATON_END) {
			p->mark[at] = DONE;
			depth--;
			continue;
		}
		edge = follow_edge(p, at, (int)class, to);
		if (edge == UNKNOWN)
			return false;
		if (edge == PROGRESS)
			find_pair(p, to[0], to[1]);
		if (edge != STAYS)
			continue;
		next = to[0] * (uint32_t)p->a->num_states + to[1];
		if (p->mark[next] == ON_PATH)
			return false;
		if (p->mark[next] == DONE)
			continue;
		p->mark[next] = ON_PATH;
		p->path[depth] = next;
		p->class[depth++] = 0;
	}
	return true;
}

/* From every place where a run passes the end of a match, and after its first character, a second
 * one starts. */
static bool
is_bounded(const struct automaton *a, uint64_t classes)
{
	size_t size = (size_t)a->num_states * (size_t)a->num_states;
	struct pairs p = { a, classes, mem_zalloc(size, 1), mem_alloc(size, sizeof *p.path),
		mem_alloc(size, sizeof *p.class), mem_alloc(size, sizeof *p.found), 0 };
	bool ok = true;

	for (int s = 1; s < a->num_states; s++)
		for (int c = 0; c < AUTOMATON_END; c++) {
			uint32_t next = a->row[s][c] & AUTOMATON_NEXT;

			if (!(classes >> c & 1) || next == AUTOMATON_DEAD)
				continue;
			if (s == AUTOMATON_START)
				find_pair(&p, next, AUTOMATON_START);
			else if (a->row[s][c] & AUTOMATON_MATCH)
				find_pair(&p, next, restart(a, c));
		}
	for (size_t i = 0; i < p.num_found && ok; i++)
		if (p.mark[p.found[i]] == FOUND)
			ok = search(&p, p.found[i]);
	free(p.mark);
	free(p.path);
	free(p.class);
	free(p.found);
	return ok;
}

/* --- all -------------------------------------------------------------------------------------- */

int
automaton_build(struct automaton *a, const struct automaton_part *part, int count, uint64_t classes,
    struct err *e)
{
	struct program *g = mem_zalloc(1, sizeof *g);
	struct tables *t = mem_zalloc(1, sizeof *t);
	int rc = 0, start;

	memset(a, 0, sizeof *a);
	a->row = mem_zalloc(AUTOMATON_STATES, sizeof *a->row);
	t->g = g;
	t->a = a;
	t->next = mem_alloc(sizeof *t->next + PROGRAM_MAX * sizeof *t->next->at, 1);
	start = build_parts(g, part, count);
	if (g->full)
		rc = err_set(e, "more than %d instructions", PROGRAM_MAX);
	else if (make_states(t, start, classes) < 0)
		rc = err_set(e, "more than %d states", AUTOMATON_STATES);
	for (int s = 0; s < a->num_states; s++)
		free(t->state[s]);
	if (rc == 0) {
		unite_states(a);
		if (!is_bounded(a, classes))
			rc = err_set(e, "matches may be searched for without bound");
	}
	free(t->next);
	free(t);
	free(g);
	return rc;
}

/* Also after a failed build. */
void
automaton_release(struct automaton *a)
{
	free(a->row);
	memset(a, 0, sizeof *a);
}

/* Visits the states that the classes lead to. */
bool
automaton_keeps(const struct automaton *a, uint64_t classes)
{
	bool reached[AUTOMATON_STATES] = { [AUTOMATON_START] = true }, any = false, whole = true;

	for (int before = 0, now = 1; now != before;) {
		before = now;
		for (int s = 1; s < a->num_states; s++)
			for (int c = 0; reached[s] && c < AUTOMATON_END; c++) {
				int next = (int)(a->row[s][c] & AUTOMATON_NEXT);

				if (!(classes >> c & 1))
					continue;
				any |= (a->row[s][c] & AUTOMATON_MATCH) != 0;
				whole &= next != AUTOMATON_DEAD;
				now += next && !reached[next];
				reached[next] |= next != AUTOMATON_DEAD;
			}
	}
	for (int s = 2; s < a->num_states; s++)
		if (reached[s]) {
			bool match = (a->row[s][AUTOMATON_END] & AUTOMATON_MATCH) != 0;

			any |= match;
			whole &= match;
		}
	return !any || whole;
}

/* Whatever comes after the character, it is a match by itself at least. */
bool
automaton_covers(const struct automaton *a, uint64_t classes)
{
	for (int c = 0; c < AUTOMATON_END; c++) {
		int next = (int)(a->row[AUTOMATON_START][c] & AUTOMATON_NEXT);

		for (int d = 0; (classes >> c & 1) && d <= AUTOMATON_END; d++)
			if ((classes >> d & 1 || d == AUTOMATON_END) &&
			    !(a->row[next][d] & AUTOMATON_MATCH))
				return false;
	}
	return true;
}
