/*
 * spmuni.c - Viterbi's algorithm over a trie of symbols
 *
 * A text becomes symbols first, one per character, so that a step in the trie is a character
 * instead of a byte. Unused and special pieces are not in the trie.
 */
#include "lib/base/mem.h"
#include "lib/token/path.h"
#include "lib/token/spm/spmuni.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNKNOWN = -1, USER_PIECE = 1 << 30 };

#define UNK_PENALTY 10.0f
#define SCORE_RESET 100000.0f /* of a running score, from 0.2.2 on */

/* The best path to a place; runner_up is kept when the margin is wanted. */
struct spm_place {
	double best; /* holds a float */
	double runner_up;
	int32_t id;
};

/* --- building --- */

/* Smallest and largest score of the normal pieces, and from them those of unknown characters and
 * user-defined pieces. The starting values are the library's, FLT_MIN included. The ids of an
 * unknown character carry its score: unk, or its first byte, with 0 for the other bytes. */
static void
set_scores(struct spmuni *u, const struct spm_unknown *unknown)
{
	const struct spmodel *m = u->model;
	float min = FLT_MAX, max = FLT_MIN;

	for (int i = 0; i < m->count; i++)
		if (m->piece[i].type == SP_NORMAL) {
			min = fminf(min, m->piece[i].score);
			max = fmaxf(max, m->piece[i].score);
		}
	u->unk_score = min - UNK_PENALTY;
	u->largest = fmaxf(fabsf(u->unk_score), fabsf(max));
	for (int i = 0; i < m->count; i++) {
		const struct sp_piece *p = &m->piece[i];

		u->score[i] = p->score;
		u->user_score[i] = u->floats ? (double)(float)(0.1 * ((double)p->len - 1))
					     : (float)p->len * max - 0.1;
		u->largest = fmaxf(u->largest, fabsf(p->score));
	}
	if (!unknown->bytes)
		u->score[unknown->unk] = u->unk_score;
	for (int b = 0; unknown->bytes && b < 256; b++)
		u->score[unknown->byte[b]] = (b & 0xc0) == 0x80 ? 0 : u->unk_score;
}

/* Enters a piece, with new symbols for new characters. */
static void
add_piece(struct spmuni *u, int id)
{
	const struct sp_piece *p = &u->model->piece[id];
	uint32_t at = TRIE_ROOT;

	for (size_t i = 0, len; i < p->len; i += len) {
		uint32_t cp = spm_character((const unsigned char *)p->text + i, &len), symbol;

		if (cp == SPM_MARK && u->model->normalizer.escape_whitespaces) {
			cp = SPM_BLANK;
			u->bytes[id]++;
		} else {
			u->bytes[id] += (uint32_t)len;
		}
		u->symbols[id]++;
		symbol = code_map_get(&u->symbol, cp);
		if (symbol == 0) {
			symbol = u->num_symbols++;
			code_map_set(&u->symbol, cp, symbol);
		}
		at = trie_add(&u->trie, at, symbol);
	}
	if (u->symbols[id] > u->longest)
		u->longest = u->symbols[id];
	u->trie.node[at].value = id | (p->type == SP_USER_DEFINED ? USER_PIECE : 0);
	u->trie.node[at].score = p->score;
}

/* Enters all pieces that text can match into a trie of that many nodes. With escaped blanks no text
 * has a blank. */
static void
fill_trie(struct spmuni *u, uint32_t nodes)
{
	const struct spmodel *m = u->model;
	bool escaped = m->normalizer.escape_whitespaces;

	trie_release(&u->trie);
	trie_init(&u->trie, nodes);
	memset(u->symbols, 0, (size_t)m->count * sizeof *u->symbols);
	memset(u->bytes, 0, (size_t)m->count * sizeof *u->bytes);
	for (int i = 0; i < m->count && !u->trie.full; i++) {
		const struct sp_piece *p = &m->piece[i];
		bool used = p->type == SP_NORMAL || p->type == SP_USER_DEFINED ||
		    (p->type == SP_UNUSED && m->model == SP_WORD);

		if (used && !(escaped && memchr(p->text, SPM_BLANK, p->len)))
			add_piece(u, i);
	}
}

/* Bytes that begin a character bound the number of nodes; usually half of them is enough. */
void
spmuni_init(struct spmuni *u, const struct spmodel *m, enum unigram_ties ties,
    const struct spm_unknown *unknown)
{
	size_t count = (size_t)m->count;
	uint32_t characters = 0;

	memset(u, 0, sizeof *u);
	u->model = m;
	u->floats = ties == UNIGRAM_TIES_0_2_2;
	code_map_init(&u->symbol);
	u->score = mem_zalloc(count + 1, sizeof *u->score);
	u->user_score = mem_alloc(count, sizeof *u->user_score);
	u->symbols = mem_alloc(count, sizeof *u->symbols);
	u->bytes = mem_alloc(count, sizeof *u->bytes);
	set_scores(u, unknown);
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < m->piece[i].len; k++)
			characters += (m->piece[i].text[k] & 0xc0) != 0x80;
	u->num_symbols = 1;
	u->longest = 1;
	fill_trie(u, characters / 2);
	if (u->trie.full)
		fill_trie(u, characters);
	u->first = mem_zalloc(u->num_symbols, sizeof *u->first);
	for (uint32_t s = 1; s < u->num_symbols; s++)
		u->first[s] = trie_child(&u->trie, TRIE_ROOT, s);
}

/* A struct of zeroes is allowed. */
void
spmuni_release(struct spmuni *u)
{
	code_map_release(&u->symbol);
	trie_release(&u->trie);
	free(u->first);
	free(u->score);
	free(u->user_score);
	free(u->symbols);
	free(u->bytes);
}

/* Frees the arrays and keeps the score. */
void
spmuni_worker_release(struct spmuni_worker *w)
{
	free(w->place);
	free(w->symbol);
	*w = (struct spmuni_worker){ .score = w->score };
}

/* The next text allocates what it needs. */
void
spmuni_worker_trim(struct spmuni_worker *w, size_t most)
{
	if (w->cap > most)
		spmuni_worker_release(w);
}

/* --- searching --- */

/* Loop invariants of a search. */
struct mode {
	bool margins; /* runners-up are wanted */
	bool floats;  /* the rule from 0.2.2 on */
	float score;  /* before the first symbol */
};

/* Offers a candidate for a place. Scores are never NaN. The comparison is unpredictable, so there
 * is no branch. */
static inline void
offer(struct spm_place *x, double sum, int32_t id, struct mode mode)
{
	double candidate = mode.floats ? (double)(float)sum : sum, best = x->best,
	       second = x->runner_up;
	bool greater = candidate > best;

	if (mode.margins) {
		second = candidate > second ? candidate : second;
		x->runner_up = second < best ? second : best;
	}
	x->best = (double)(float)(greater ? candidate : best);
	x->id ^= (x->id ^ id) & -(int32_t)greater;
}

/* Lowers the scores of a place and of those that a piece from before it can end at; a sum of two
 * floats is rounded to a float once. */
static void
lower_scores(const struct spmuni *u, struct spm_place *place, size_t n)
{
	double by = place[0].best;

	for (size_t k = 0; k <= n && k <= u->longest; k++)
		place[k].best = (double)(float)(place[k].best - by);
}

/*
 * Finds the best paths through a part of a unit from a running score on; place[i] is the place
 * before symbol i. Where no piece ends, a candidate of -INFINITY is offered, which never wins.
 * Returns whether a user-defined piece was among the candidates.
 */
static inline bool
search(const struct spmuni *u, const uint32_t *symbol, struct spm_place *place,
    const struct path_part *part, struct mode mode)
{
	const struct trie_node *node = u->trie.node;
	size_t n = part->n;
	bool user = false;

	if (part->carried == 0)
		place[0].best = (double)mode.score;
	for (size_t i = part->carried ? part->carried : 1; i <= n; i++)
		place[i] = (struct spm_place){ -INFINITY, -INFINITY, UNKNOWN };
	for (size_t i = 0; i < part->starts; i++) {
		uint32_t at = u->first[symbol[i]];
		double here;

		if (mode.floats && fabs(place[i].best) > SCORE_RESET)
			lower_scores(u, &place[i], n - i);
		here = place[i].best;
		if (node[at].value < 0)
			offer(&place[i + 1], (double)(u->unk_score + (float)here), UNKNOWN, mode);
		for (size_t k = i + 1; at != TRIE_NONE; k++) {
			const struct trie_node *x = &node[at];

			if (x->value >= USER_PIECE) {
				user = true;
				offer(&place[k], here + u->user_score[x->value - USER_PIECE],
				    x->value - USER_PIECE, mode);
			} else {
				offer(&place[k], here + (double)x->score, x->value, mode);
			}
			at = k < n ? trie_child(&u->trie, at, symbol[k]) : TRIE_NONE;
		}
	}
	return user;
}

/* Makes room for that many symbols. */
static void
reserve(struct spmuni_worker *w, size_t n)
{
	if (w->cap >= n)
		return;
	w->cap = n > 1024 ? n : 1024;
	w->symbol = mem_realloc(w->symbol, w->cap, sizeof *w->symbol);
	w->place = mem_realloc(w->place, w->cap + 1, sizeof *w->place);
}

/* Writes one symbol per character to w->symbol; returns their number. The arrays grow to the
 * longest unit. */
static size_t
read_symbols(const struct spmuni *u, struct spmuni_worker *w, const unsigned char *p, size_t bytes)
{
	size_t n = 0;

	reserve(w, bytes);
	for (size_t i = 0, len; i < bytes; i += len)
		w->symbol[n++] = code_map_get(&u->symbol, spm_character(p + i, &len));
	return n;
}

/*
 * Appends the ids of the path to place n. The path is found backwards and stored in place of the
 * symbols. Returns true when each unknown character has added ids; *margin becomes the least lead
 * of the path.
 */
static bool
add_path(const struct spmuni *u, struct spmuni_worker *w, size_t n,
    const struct spm_unknown *unknown, const unsigned char *p, struct token_ids *out,
    double *margin)
{
	size_t first = n;
	bool all = true;

	for (size_t k = n; k > 0;) {
		const struct spm_place *x = &w->place[k];

		if (margin && x->best - x->runner_up < *margin)
			*margin = x->best - x->runner_up;
		w->symbol[--first] = (uint32_t)x->id;
		k -= x->id == UNKNOWN ? 1 : u->symbols[x->id];
	}
	token_ids_reserve(out, n - first);
	for (; first < n; first++) {
		uint32_t id = w->symbol[first];
		size_t len, before = out->count;

		if (id != (uint32_t)UNKNOWN) {
			out->id[out->count++] = id;
			p += u->bytes[id];
			continue;
		}
		spm_character(p, &len);
		spm_unknown_add(unknown, p, len, out);
		p += len;
		all &= out->count > before;
		token_ids_reserve(out, n - first);
	}
	return all;
}

/* A long unit, and the number of its bytes already encoded. */
struct encoding {
	const struct spmuni *u;
	struct spmuni_worker *w;
	const struct spm_unknown *unknown;
	const unsigned char *p;
	size_t len, done;
	struct token_ids *out;
	float score; /* the running score before it */
};

/* Path: the symbols of a part. */
static size_t
read_part(void *ctx, struct path_part *part)
{
	const struct encoding *x = ctx;
	size_t i = part->at, len, next = part->at;

	for (part->n = 0; part->n < part->starts + x->u->longest && i < x->len; i += len) {
		uint32_t cp = spm_character(x->p + i, &len);

		x->w->symbol[part->n++] = code_map_get(&x->u->symbol, cp);
		if (part->n <= part->starts)
			next = i + len;
	}
	return next;
}

/* Path: the places of a part. The last part has the score of the unit. */
static int
search_part(void *ctx, void *place, const struct path_part *part, struct err *e)
{
	const struct encoding *x = ctx;
	struct mode mode = { .floats = x->u->floats, .score = x->score };

	(void)e;
	search(x->u, x->w->symbol, place, part, mode);
	if (part->starts == part->n)
		x->w->score = (float)((const struct spm_place *)place)[part->n].best;
	return 0;
}

/* Path: symbols of the last piece. The place after an unknown character is reached through that
 * character. */
static size_t
back(const void *ctx, const void *place, const struct path_part *part, size_t k)
{
	const struct encoding *x = ctx;
	int32_t id = ((const struct spm_place *)place)[k].id;

	return id == UNKNOWN ? k <= part->starts : x->u->symbols[id];
}

/* Path: the next piece. */
static void
put(void *ctx, const void *place, size_t k)
{
	struct encoding *x = ctx;
	int32_t id = ((const struct spm_place *)place)[k].id;
	size_t len;

	if (id != UNKNOWN) {
		token_ids_add(x->out, (uint32_t)id);
		x->done += x->u->bytes[id];
		return;
	}
	spm_character(x->p + x->done, &len);
	spm_unknown_add(x->unknown, x->p + x->done, len, x->out);
	x->done += len;
}

/* Starts from the true score. A long unit is encoded in stretches; there is always a path. */
void
spmuni_encode(const struct spmuni *u, struct spmuni_worker *w, const struct spm_unknown *unknown,
    const unsigned char *p, size_t len, struct token_ids *out)
{
	struct path_part part = { 0 };

	if (len > PATH_STRETCH) {
		struct encoding x = { u, w, unknown, p, len, 0, out, w->score };
		struct path_text text = { &x, u->longest, sizeof(struct spm_place), read_part,
			search_part, back, put };
		struct err e;

		reserve(w, PATH_STRETCH + u->longest);
		if (path_search(&text, PATH_STRETCH, &e) < 0)
			BUG("no path through a unit: %s", e.msg);
		return;
	}
	part.n = part.starts = read_symbols(u, w, p, len);
	if (u->floats)
		search(u, w->symbol, w->place, &part,
		    (struct mode){ .floats = true, .score = w->score });
	else
		search(u, w->symbol, w->place, &part, (struct mode){ .score = w->score });
	w->score = (float)w->place[part.n].best;
	add_path(u, w, part.n, unknown, p, out, NULL);
}

/*
 * A path of at most n pieces is added up with an error below n / 2 units in the last place of the
 * largest sum M on the way, whatever the score it starts from. So a lead of more than 2 n units was
 * one in exact arithmetic, seen from score 0, and is one from the true score: a unit is at most M /
 * 2^23, hence lead > n M / 2^22, and M is below the score's magnitude plus n times the largest
 * score. Where that reaches the score at which the newer rule resets it, the path is searched too.
 */
float
spmuni_encode_first(const struct spmuni *u, struct spmuni_worker *w,
    const struct spm_unknown *unknown, const unsigned char *p, size_t len, struct token_ids *out)
{
	size_t n = read_symbols(u, w, p, len);
	struct path_part part = { .starts = n, .n = n };
	struct mode newer = { .margins = true, .floats = true }, older = { .margins = true };
	double margin = INFINITY, bound;
	bool user = u->floats ? search(u, w->symbol, w->place, &part, newer)
			      : search(u, w->symbol, w->place, &part, older);
	bool all = add_path(u, w, n, unknown, p, out, &margin);

	if (user || !all)
		return -1;
	bound = margin * 4194304 / (double)n - (double)n * (double)u->largest;
	if (u->floats)
		bound = fmin(bound, SCORE_RESET - (double)n * (double)u->largest);
	return bound > FLT_MAX ? FLT_MAX : (float)bound;
}

/* The piece must be the whole unit. */
void
spmuni_word(const struct spmuni *u, const struct spm_unknown *unknown, const unsigned char *p,
    size_t len, struct token_ids *out)
{
	uint32_t at = TRIE_ROOT;
	size_t step;

	for (size_t i = 0; i < len; i += step) {
		uint32_t symbol = code_map_get(&u->symbol, spm_character(p + i, &step));

		at = symbol ? trie_child(&u->trie, at, symbol) : TRIE_NONE;
		if (at == TRIE_NONE)
			break;
	}
	if (at != TRIE_NONE && u->trie.node[at].value >= 0) {
		token_ids_add(out, (uint32_t)u->trie.node[at].value & ~(uint32_t)USER_PIECE);
		return;
	}
	for (size_t i = 0; i < len; i += step) {
		spm_character(p + i, &step);
		spm_unknown_add(unknown, p + i, step, out);
	}
}
