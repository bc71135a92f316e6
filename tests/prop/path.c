/*
 * path.c - the best path found in parts against the best path of the whole piece
 *
 * Models of two letters and few scores, so that ties are frequent and paths often stay apart for
 * long; pieces are random, or one repeated letter. Of equal candidates the first wins.
 */
#include "lib/base/rng.h"
#include "lib/token/path.h"
#include "tests/check.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST = 4, TOKENS = 1 << (LONGEST + 1), PIECE_MAX = 400, ROUNDS = 4000 };

/* The token of n letters with these bits is number 2^n + bits; NAN: there is none. */
struct model {
	double score[TOKENS];
	unsigned char piece[PIECE_MAX];
	size_t n, base; /* symbols; the start of the part that was read last */
	size_t ids[PIECE_MAX], count;
};

struct place {
	double score;
	size_t token, symbols;
};

static size_t
read_part(void *ctx, struct path_part *part)
{
	struct model *m = ctx;
	size_t left = m->n - part->at;

	m->base = part->at;
	part->n = left < part->starts + LONGEST ? left : part->starts + LONGEST;
	return part->at + (left < part->starts ? left : part->starts);
}

static int
search(void *ctx, void *places, const struct path_part *part, struct err *e)
{
	const struct model *m = ctx;
	struct place *place = places;

	(void)e;
	if (part->carried == 0)
		place[0] = (struct place){ 0 };
	for (size_t k = part->carried ? part->carried : 1; k <= part->n; k++)
		place[k] = (struct place){ .score = -INFINITY };
	for (size_t i = 0; i < part->starts; i++) {
		size_t token = 1;

		for (size_t n = 1; n <= LONGEST && i + n <= part->n; n++) {
			double sum;

			token = token << 1 | m->piece[m->base + i + n - 1];
			sum = place[i].score + m->score[token];
			if (sum > place[i + n].score)
				place[i + n] = (struct place){ sum, token, n };
		}
	}
	return 0;
}

static size_t
back(const void *ctx, const void *place, const struct path_part *part, size_t k)
{
	(void)ctx, (void)part;
	return ((const struct place *)place)[k].symbols;
}

static void
put(void *ctx, const void *place, size_t k)
{
	struct model *m = ctx;

	m->ids[m->count++] = ((const struct place *)place)[k].token;
}

/* Single letters are always tokens. */
static void
random_model(struct model *m, struct mt19937 *rng)
{
	bool same = mt19937_interval(rng, 2) == 0;

	for (int t = 2; t < TOKENS; t++)
		m->score[t] = t > 3 && mt19937_interval(rng, 2) == 0
		    ? NAN
		    : -1 - (double)mt19937_interval(rng, 4);
	m->n = 1 + (size_t)mt19937_interval(rng, PIECE_MAX - 1);
	for (size_t i = 0; i < m->n; i++)
		m->piece[i] = same ? 0 : (unsigned char)mt19937_interval(rng, 1);
}

int
main(void)
{
	static struct model m, whole;
	struct mt19937 rng;
	struct err e;

	mt19937_seed(&rng, (uint32_t)check_seed());
	for (int round = 0; round < ROUNDS; round++) {
		struct path_text t = { NULL, LONGEST, sizeof(struct place), read_part, search, back,
			put };
		size_t position_range = 1 + (size_t)mt19937_interval(&rng, 30);

		random_model(&m, &rng);
		m.count = 0;
		whole = m;
		t.ctx = &m;
		CHECK(path_search(&t, position_range, &e) == 0);
		t.ctx = &whole;
		CHECK(path_search(&t, PIECE_MAX, &e) == 0);
		CHECK(m.count == whole.count);
		CHECK(!memcmp(m.ids, whole.ids, whole.count * sizeof *m.ids));
	}
	return check_done();
}
