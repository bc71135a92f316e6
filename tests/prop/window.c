/*
 * window.c - merging in parts against a direct, slow merge of the whole list
 *
 * The rules are random tables: pairs of any rank, ranks shared by many pairs, and tokens that merge
 * where their parts would; lists are random, or one repeated word, or such that the first token
 * depends on the last symbol. The byte-pair encoder is tested in the same way on pieces of several
 * parts.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/token/bpe/bpe_impl.h"
#include "lib/token/window.h"
#include "tests/check.h"
#include "tests/tiny_bpe.h"

enum { IDS = 256, LIST_MAX = 300, ROUNDS = 20000, LONG = 5 * WINDOW_SIZE / 2 };

/* The rank of each pair; 0: it does not merge. */
struct rule {
	uint32_t rank[IDS][IDS], joined[IDS][IDS];
	size_t widest;  /* symbols of a token */
	size_t longest; /* merged list */
};

/* A list, and its tokens so far. */
struct list {
	const uint32_t *symbol;
	size_t n, at;
	struct token_ids tokens;
};

static size_t
below(struct mt19937 *rng, size_t n)
{
	return (size_t)mt19937_interval(rng, n - 1);
}

/* The lowest rank, leftmost, searched among all pairs after every merge. */
static size_t
merge(void *ctx, uint32_t *id, uint32_t *width, size_t n)
{
	struct rule *r = ctx;

	r->longest = n > r->longest ? n : r->longest;
	for (size_t i = 0; i < n; i++)
		width[i] = 1;
	for (;;) {
		uint32_t least = UINT32_MAX;
		size_t at = 0;

		for (size_t i = 0; i + 1 < n; i++)
			if (r->rank[id[i]][id[i + 1]] && r->rank[id[i]][id[i + 1]] < least) {
				at = i;
				least = r->rank[id[i]][id[i + 1]];
			}
		if (least == UINT32_MAX)
			return n;
		id[at] = r->joined[id[at]][id[at + 1]];
		width[at] += width[at + 1];
		n--;
		memmove(id + at + 1, id + at + 2, (n - at - 1) * sizeof *id);
		memmove(width + at + 1, width + at + 2, (n - at - 1) * sizeof *width);
	}
}

/* Sometimes more symbols than requested. */
static void
read_list(void *ctx, struct token_ids *symbols, size_t want)
{
	struct list *l = ctx;

	for (size_t i = 0; i < want + l->at % 7 && l->at < l->n; i++)
		token_ids_add(symbols, l->symbol[l->at++]);
}

static void
take_tokens(void *ctx, const uint32_t *token, size_t n)
{
	struct list *l = ctx;

	CHECK(n > 0);
	for (size_t i = 0; i < n; i++)
		token_ids_add(&l->tokens, token[i]);
}

/* Merges a list in both ways. */
static void
compare(struct rule *r, struct window *w, const uint32_t *symbol, size_t n, size_t size)
{
	uint32_t id[LIST_MAX], width[LIST_MAX];
	struct list l = { symbol, n, 0, { 0 } };
	struct window_list list = { read_list, take_tokens, &l };
	size_t count;

	memcpy(id, symbol, n * sizeof *id);
	count = merge(r, id, width, n);
	r->longest = 0;
	window_merge(w, &list, &(struct window_rule){ merge, r, r->widest }, size);
	CHECK(l.tokens.count == count &&
	    (count == 0 || !memcmp(l.tokens.id, id, count * sizeof *id)));
	token_ids_release(&l.tokens);
}

/* The largest number of symbols in a token, if every pair merges into an id above its own two. */
static void
find_widest(struct rule *r, size_t ids)
{
	size_t widest[IDS], most = 1;

	for (size_t id = 0; id < ids; id++) {
		widest[id] = 1;
		for (size_t i = 0; i < id; i++)
			for (size_t k = 0; k < id; k++)
				if (r->rank[i][k] && r->joined[i][k] == id &&
				    widest[i] + widest[k] > widest[id])
					widest[id] = widest[i] + widest[k];
		most = widest[id] > most ? widest[id] : most;
	}
	r->widest = most < LIST_MAX ? most : LIST_MAX;
}

/* Few symbols, of which some pairs merge; ranks are unordered and shared by several pairs. */
static void
make_rule(struct rule *r, struct mt19937 *rng, size_t ids)
{
	size_t often = 1 + below(rng, 6), ranks = 1 + below(rng, ids * ids);

	memset(r, 0, sizeof *r);
	for (size_t i = 0; i < ids; i++)
		for (size_t k = 0; k < ids; k++) {
			size_t above = (i > k ? i : k) + 1;

			if (above == ids || below(rng, often) > 1)
				continue;
			r->rank[i][k] = 1 + (uint32_t)below(rng, ranks);
			r->joined[i][k] = (uint32_t)(above + below(rng, ids - above));
		}
	find_widest(r, ids);
}

static void
test_random(struct rule *r, struct window *w, struct mt19937 *rng)
{
	uint32_t symbol[LIST_MAX];
	size_t symbols = 1;

	for (int round = 0; round < ROUNDS; round++) {
		size_t n = below(rng, round % 16 ? 60 : LIST_MAX), size = 1 + below(rng, 40);

		if (round % 20 == 0) {
			symbols = 1 + below(rng, 6);
			make_rule(r, rng, symbols + 1 + below(rng, 20));
		}
		for (size_t i = 0; i < n; i++)
			symbol[i] = (uint32_t)(round % 5 ? below(rng, symbols) : 0);
		compare(r, w, symbol, n, size);
	}
}

/* A row of symbols in which any two neighbours merge, later ones first, so that the pairs depend on
 * the last symbol. With earlier ones first no part would have to grow. */
static void
test_far(struct rule *r, struct window *w)
{
	enum { ROW = 120, SIZE = 16 };
	uint32_t symbol[ROW];

	for (int later = 0; later < 2; later++) {
		memset(r, 0, sizeof *r);
		for (uint32_t i = 0; i < ROW; i++) {
			symbol[i] = i;
			if (i + 1 == ROW)
				break;
			r->rank[i][i + 1] = 1 + (later ? ROW - i : i);
			r->joined[i][i + 1] = ROW + i;
		}
		r->widest = 2;
		for (size_t n = ROW - 7; n <= ROW; n++) {
			compare(r, w, symbol, n, SIZE);
			CHECK(later ? r->longest == n : r->longest == SIZE);
		}
	}
}

/* Doubling up to the largest id: a run of one symbol then has fixed boundaries. */
static void
test_run(struct rule *r, struct window *w)
{
	uint32_t symbol[LIST_MAX] = { 0 };

	memset(r, 0, sizeof *r);
	for (uint32_t i = 0; i < 3; i++) {
		r->rank[i][i] = 3 - i;
		r->joined[i][i] = i + 1;
	}
	r->widest = 8;
	for (size_t n = 0; n <= LIST_MAX; n++) {
		compare(r, w, symbol, n, 32);
		CHECK(r->longest <= 32);
	}
}

/* A repeated word of 1 to 12 symbols, with rules of which some make the last token depend on the
 * symbols that follow; the list ends at every symbol of the word. */
static void
test_words(struct rule *r, struct window *w, struct mt19937 *rng)
{
	uint32_t symbol[LIST_MAX];

	for (size_t round = 0; round < ROUNDS / 4; round++) {
		size_t period = 1 + round % 12, symbols = 1 + below(rng, period < 6 ? period : 6);

		if (round % 12 == 0)
			make_rule(r, rng, 6 + 1 + below(rng, 20));
		for (size_t i = 0; i < LIST_MAX; i++)
			symbol[i] = i < period ? (uint32_t)below(rng, symbols) : symbol[i - period];
		compare(r, w, symbol, LIST_MAX - below(rng, 13), 1 + below(rng, 80));
	}
}

/* t h e t h e: the e of each "the" could merge with the following t before "the" is complete, but
 * never does, since an h follows that t. */
static void
test_the(struct rule *r, struct window *w)
{
	enum { T, H, E, TH, ET, THE };
	uint32_t symbol[LIST_MAX];

	memset(r, 0, sizeof *r);
	r->rank[T][H] = 1;
	r->joined[T][H] = TH;
	r->rank[E][T] = 2;
	r->joined[E][T] = ET;
	r->rank[TH][E] = 3;
	r->joined[TH][E] = THE;
	r->widest = 3;
	for (uint32_t i = 0; i < LIST_MAX; i++)
		symbol[i] = i % 3;
	for (size_t n = LIST_MAX - 3; n <= LIST_MAX; n++) {
		compare(r, w, symbol, n, 32);
		CHECK(r->longest <= 32);
	}
}

/* The encoder on a piece, and its heap on the whole piece. */
static void
compare_piece(const struct bpe *b, const unsigned char *piece, size_t n)
{
	uint32_t *id = mem_alloc(n, sizeof *id), *width = mem_alloc(n, sizeof *width);
	struct bpe_worker *w = bpe_worker_new(b);
	struct bpe_scratch scratch = { 0 };
	struct token_ids ids = { 0 };
	size_t count;

	for (size_t i = 0; i < n; i++)
		id[i] = b->byte_id[piece[i]];
	count = bpe_merge_heap(b, &scratch, id, width, n);
	bpe_encode_piece(w, piece, n, &ids);
	CHECK(ids.count == count && !memcmp(ids.id, id, count * sizeof *id));
	bpe_worker_free(w);
	bpe_scratch_release(&scratch);
	token_ids_release(&ids);
	free(id);
	free(width);
}

static void
test_pieces(struct mt19937 *rng)
{
	struct tiny_bpe *tiny = mem_zalloc(1, sizeof *tiny);
	struct bpe_token token[TINY_TOKENS];
	struct bpe_merge merges[TINY_MERGES];
	struct bpe_spec spec = { .token = token,
		.num_tokens = TINY_TOKENS,
		.merge = merges,
		.num_merges = TINY_MERGES };
	unsigned char *piece = mem_alloc(LONG, 1);
	struct bpe *b;

	tiny_make(tiny, rng);
	for (int i = 0; i < TINY_TOKENS; i++)
		token[i] = (struct bpe_token){ tiny->bytes[i], (uint32_t)tiny->len[i] };
	for (int i = 0; i < TINY_MERGES; i++)
		merges[i] = (struct bpe_merge){ (uint32_t)tiny->left[256 + i],
			(uint32_t)tiny->right[256 + i] };
	b = bpe_new(&spec, NULL, &(struct err){ "" });
	for (size_t letters = 1; letters <= 4; letters++) {
		for (size_t i = 0; i < LONG; i++)
			piece[i] = (unsigned char)('a' + below(rng, letters));
		compare_piece(b, piece, LONG);
	}
	bpe_free(b);
	free(piece);
	free(tiny);
}

int
main(void)
{
	struct rule *r = mem_zalloc(1, sizeof *r);
	struct window w = { 0 };
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)check_seed());
	test_random(r, &w, &rng);
	test_far(r, &w);
	test_run(r, &w);
	test_words(r, &w, &rng);
	test_the(r, &w);
	test_pieces(&rng);
	window_release(&w);
	free(r);
	return check_done();
}
