/*
 * bpe.c - preparing a vocabulary for merging
 *
 * Pairs live in tables of integers, so no string is touched while merging. Two symbols usually join
 * to the token of the last join or the one after it, since vocabularies are written in the order of
 * their merges; only where that fails are tokens found by their bytes. A rank file is converted to
 * such pairs too (bpe_parts.c). Independent parts are made by two threads.
 */
#include "lib/base/mem.h"
#include "lib/base/pool.h"
#include "lib/token/bpe/bpe.h"
#include "lib/token/bpe/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
	JOBS = 3,
	/* how many merges ahead the bytes of the parts, and the places of those bytes, are
	 * prefetched */
	NEAR = 8,
	FAR = 16,
};

/* Progress in finding the joins of a stretch of merges: the position, the last join, and how many
 * tokens may still be examined. */
struct joins {
	size_t done, end;
	uint32_t last;
	size_t looks;
	/* the fault of the next merge; NULL: none, or it needs names */
	const char *why;
};

/* What two threads make in parallel. */
struct build {
	struct bpe *b;
	const struct bpe_spec *spec;
	uint32_t *joined; /* by rank */
	struct joins joins[2];
	size_t bad; /* the faulty merge, or the number of merges */
	int rc[JOBS];
	struct err why[JOBS];
};

/* For kinds whose symbols are not bytes. */
int64_t
bpe_find(const struct bpe *b, const unsigned char *bytes, size_t len)
{
	uint32_t id = bpe_find_name(&b->names, bytes, len);

	return id == BPE_NONE ? -1 : (int64_t)id;
}

/* With all 256 bytes every text can be encoded, so encoding cannot fail later. */
static int
find_bytes(struct bpe *b, struct err *e)
{
	memset(b->byte_id, 0xff, sizeof b->byte_id);
	for (uint32_t i = 0; i < b->num_tokens; i++)
		if (b->token[i].bytes && b->token[i].len == 1)
			b->byte_id[*b->token[i].bytes] = i;
	for (int i = 0; i < 256; i++)
		if (b->byte_id[i] == BPE_NONE)
			return err_set(e, "no token for byte 0x%02x", i);
	return 0;
}

/* The id of the join of two tokens, or BPE_NONE, also while there are no names. First the previous
 * join, which may be the same token, and the tokens after it are tried, up to a limit; then its
 * bytes are looked up. */
static uint32_t
find_join(const struct bpe *b, struct bpe_merge m, struct joins *j)
{
	const struct bpe_token *left = &b->token[m.left], *right = &b->token[m.right];
	unsigned char few[64], *bytes = few;
	size_t len = (size_t)left->len + right->len;
	uint32_t id;

	for (id = j->last; id < b->num_tokens && j->looks; id++, j->looks--)
		if (bpe_is_join(&b->token[id], left, right))
			return id;
	if (!b->names.slot)
		return BPE_NONE;
	if (len > sizeof few)
		bytes = mem_alloc(len, 1);
	memcpy(bytes, left->bytes, left->len);
	memcpy(bytes + left->len, right->bytes, right->len);
	id = bpe_find_name(&b->names, bytes, len);
	if (bytes != few)
		free(bytes);
	return id;
}

/* True when both parts of a merge exist. */
static bool
has_parts(const struct bpe_spec *spec, struct bpe_merge m)
{
	return m.left < spec->num_tokens && bpe_is_text(&spec->token[m.left]) &&
	    m.right < spec->num_tokens && bpe_is_text(&spec->token[m.right]);
}

/* Prefetches the bytes of the parts of a later merge, whose tokens were prefetched before. */
static inline void
expect_parts(const struct bpe_spec *spec, size_t i)
{
	struct bpe_merge near, far;

	if (i + FAR >= spec->num_merges)
		return;
	near = spec->merge[i + NEAR];
	far = spec->merge[i + FAR];
	if (far.left < spec->num_tokens)
		__builtin_prefetch(&spec->token[far.left]);
	if (far.right < spec->num_tokens)
		__builtin_prefetch(&spec->token[far.right]);
	if (has_parts(spec, near)) {
		__builtin_prefetch(spec->token[near.left].bytes);
		__builtin_prefetch(spec->token[near.right].bytes);
	}
}

/* One half of the merges, until all are found, or one is faulty or needs names; writes to joined.
 * The two threads do not share a cache line that they write. */
static void
join_half(void *ctx, int half)
{
	struct build *x = ctx;
	struct joins j = x->joins[half];

	for (; j.done < j.end; j.done++) {
		struct bpe_merge m = x->spec->merge[j.done];
		uint32_t id;

		expect_parts(x->spec, j.done);
		if (!has_parts(x->spec, m)) {
			j.why = "a part has no text";
			break;
		}
		id = find_join(x->b, m, &j);
		if (id == BPE_NONE) {
			j.why = x->b->names.slot ? "the join is not in the vocabulary" : NULL;
			break;
		}
		x->joined[j.done] = j.last = id;
	}
	x->joins[half] = j;
}

/* Runs independent calls in parallel, or one after the other without a pool. */
static void
run_jobs(struct build *x, int count, void (*fn)(void *ctx, int job))
{
	if (x->spec->pool)
		pool_run(x->spec->pool, count, fn, x);
	else
		for (int i = 0; i < count; i++)
			fn(x, i);
}

/* Finds the token that each merge makes. Names are built only if that needs them. */
static int
find_joins(struct build *x, struct err *e)
{
	size_t count = x->spec->num_merges, looks = 2 * (x->spec->num_tokens + count);

	x->joined = mem_zalloc_whole(count, sizeof *x->joined);
	x->joins[0] = (struct joins){ .end = count / 2, .looks = looks };
	x->joins[1] = (struct joins){ .done = count / 2, .end = count, .looks = looks };
	for (;;) {
		const struct joins *j;

		run_jobs(x, 2, join_half);
		j = &x->joins[x->joins[0].done == x->joins[0].end];
		if (j->done == j->end)
			return 0;
		if (j->why) {
			x->bad = j->done;
			return err_set(e, "%s", j->why);
		}
		if (bpe_names_init(&x->b->names, x->b->token, x->b->num_tokens, e) < 0)
			return -1;
	}
}

/* Rank is the position. Pairs of bytes also have their own table, for the first look-ups of every
 * piece. */
static void
add_merges(struct build *x)
{
	const struct bpe_spec *spec = x->spec;
	struct bpe *b = x->b;
	struct bpe_pairs *p = &b->pairs;

	bpe_pairs_init(p, spec->num_merges);
	for (size_t i = 0; i < spec->num_merges; i++) {
		if (i + BPE_AHEAD < spec->num_merges)
			bpe_pairs_expect(p, spec->merge[i + BPE_AHEAD]);
		bpe_pairs_add(p, spec->merge[i], (uint32_t)i, x->joined[i]);
		bpe_leaf_add(b, &b->token[x->joined[i]], (uint32_t)i);
	}
}

/* Makes the pairs, and what depends only on the tokens. */
static void
build_job(void *ctx, int job)
{
	struct build *x = ctx;
	struct bpe *b = x->b;

	if (job == 0 && x->spec->ranks)
		bpe_parts_of_ranks(b);
	else if (job == 0)
		add_merges(x);
	else if (job == 1 && b->whole_piece && !b->names.slot)
		x->rc[job] = bpe_names_init(&b->names, b->token, b->num_tokens, &x->why[job]);
	else if (job == 2 && !x->spec->symbols)
		bpe_cuts_init(&b->cuts, b->token, b->num_tokens);
	if (job == 2 && b->whole_piece)
		bpe_names_init_units(&b->units, b->token, b->num_tokens);
}

/* Models with symbols need names later, and a rank file's pairs are found by them. */
static int
build(struct build *x, struct err *e)
{
	const struct bpe_spec *spec = x->spec;

	if (spec->num_tokens > BPE_MAX || spec->num_merges > BPE_MAX)
		return err_set(e, "%zu tokens and %zu merges: at most %d of each", spec->num_tokens,
		    spec->num_merges, BPE_MAX);
	if (((spec->symbols || spec->ranks) &&
		bpe_names_init(&x->b->names, x->b->token, x->b->num_tokens, e) < 0) ||
	    (!spec->symbols && find_bytes(x->b, e) < 0) || (!spec->ranks && find_joins(x, e) < 0))
		return -1;
	memset(x->b->leaf, 0xff, sizeof x->b->leaf);
	run_jobs(x, JOBS, build_job);
	for (int i = 0; i < JOBS; i++)
		if (x->rc[i] < 0)
			return err_set(e, "%s", x->why[i].msg);
	return 0;
}

struct bpe *
bpe_new(const struct bpe_spec *spec, size_t *bad, struct err *e)
{
	struct bpe *b = mem_zalloc(1, sizeof *b);
	struct build x = { .b = b, .spec = spec, .bad = spec->num_merges };
	int rc;

	b->token = spec->token;
	b->num_tokens = spec->num_tokens;
	b->widest = 1;
	b->whole_piece = spec->whole_piece && !spec->symbols;
	rc = build(&x, e);
	free(x.joined);
	if (bad)
		*bad = x.bad;
	if (rc == 0)
		return b;
	bpe_free(b);
	return NULL;
}

/* NULL is allowed. No worker may be left. */
void
bpe_free(struct bpe *b)
{
	if (!b)
		return;
	bpe_names_release(&b->names);
	bpe_names_release(&b->units);
	bpe_cuts_release(&b->cuts);
	bpe_pairs_release(&b->pairs);
	free(b);
}
