/*
 * bpe.c - the encoder against a direct, slow implementation of the rule
 *
 * Random vocabularies (merges; rank files; both with pieces that no merge produces; many tokens
 * that span characters of a script without spaces) and random pieces: the ids are those of the slow
 * rule, from a new worker and from one whose caches are full of other pieces. The ids of a text are
 * those of its pieces in order.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/base/str.h"
#include "lib/base/utf8.h"
#include "lib/token/bpe/bpe.h"
#include "tests/check.h"

enum { PIECES = 100000, VOCABULARIES = 24, TOKENS = 900, TOKEN_MAX = 24, PIECE_MAX = 120 };

/* Tokens by id and, for merges, the pairs in order of rank. */
struct vocabulary {
	struct bpe_token token[TOKENS];
	unsigned char bytes[TOKENS][TOKEN_MAX];
	struct bpe_merge merge[TOKENS];
	uint32_t joined[TOKENS];
	size_t num_tokens, num_merges;
	bool ranks, whole_piece;
};

static size_t
below(struct mt19937 *rng, size_t n)
{
	return (size_t)mt19937_interval(rng, n - 1);
}

static uint32_t
find(const struct vocabulary *v, const unsigned char *bytes, size_t len)
{
	for (size_t i = 0; i < v->num_tokens; i++)
		if (v->token[i].len == len && !memcmp(v->token[i].bytes, bytes, len))
			return (uint32_t)i;
	return UINT32_MAX;
}

/* UINT32_MAX when a token of these bytes exists. */
static uint32_t
add_token(struct vocabulary *v, const unsigned char *bytes, size_t len)
{
	size_t id = v->num_tokens;

	if (len > TOKEN_MAX || find(v, bytes, len) != UINT32_MAX)
		return UINT32_MAX;
	memcpy(v->bytes[id], bytes, len);
	v->token[id] = (struct bpe_token){ v->bytes[id], (uint32_t)len };
	v->num_tokens++;
	return (uint32_t)id;
}

/* The alphabets of texts and tokens: few letters, so that rules overlap; any byte; kana and kanji.
 */
static size_t
random_bytes(struct mt19937 *rng, int kind, size_t max, unsigned char *out)
{
	size_t n = 0;

	while (n + 4 <= max) {
		switch (kind) {
		case 0: out[n++] = (unsigned char)("ab c"[below(rng, 4)]); break;
		case 1: out[n++] = (unsigned char)mt19937_next(rng); break;
		case 2:
			n += (size_t)utf8_encode((uint32_t)(0x3042 + below(rng, 6)), out + n);
			break;
		default:
			n +=
			    (size_t)utf8_encode((uint32_t)(below(rng, 4) ? 0x4e00 + below(rng, 300)
							: below(rng, 2)  ? ' ' + below(rng, 90)
									: 0x1f600 + below(rng, 40)),
				out + n);
		}
		if (below(rng, 2 * max) == 0)
			break;
	}
	return n;
}

/* Joins random earlier tokens; sometimes adds a token that no merge makes, or a second merge for an
 * existing token. */
static void
make(struct vocabulary *v, struct mt19937 *rng, int kind)
{
	memset(v, 0, sizeof *v);
	v->ranks = kind & 1;
	v->whole_piece = v->ranks || (kind & 2);
	for (int b = 0; b < 256; b++)
		add_token(v, &(unsigned char){ (unsigned char)b }, 1);
	while (v->num_tokens < TOKENS) {
		unsigned char text[64], *bytes = text;
		size_t len = random_bytes(rng, kind / 4 % 4, 24, text), from = below(rng, len), cut;
		uint32_t left, right, id;

		/* any range of the text, also within characters */
		bytes += from;
		len = 1 + below(rng, len - from < 9 ? len - from : 9);
		cut = 1 + below(rng, len);
		left = find(v, bytes, cut);
		right = find(v, bytes + cut, len - cut);

		if (below(rng, 8) == 0) {
			bytes = text;
			left = (uint32_t)below(rng, v->num_tokens);
			right = (uint32_t)(256 + below(rng, v->num_tokens - 255)) %
			    (uint32_t)v->num_tokens;
			memcpy(bytes, v->token[left].bytes, cut = v->token[left].len);
			memcpy(bytes + cut, v->token[right].bytes, v->token[right].len);
			len = cut + v->token[right].len;
		}
		id = add_token(v, bytes, len);
		if (id == UINT32_MAX || left == UINT32_MAX || right == UINT32_MAX || len == cut ||
		    v->ranks)
			continue;
		v->merge[v->num_merges] = (struct bpe_merge){ left, right };
		v->joined[v->num_merges++] = id;
	}
}

/* A second merge for an existing token, as in some tokenizer.json. */
static void
add_second_ways(struct vocabulary *v, struct mt19937 *rng)
{
	for (int tries = 0; tries < 2000 && v->num_merges < TOKENS - 256; tries++) {
		uint32_t id = (uint32_t)(256 + below(rng, TOKENS - 256));
		size_t cut = 1 + below(rng, v->token[id].len), i;
		uint32_t left = find(v, v->bytes[id], cut);
		uint32_t right = find(v, v->bytes[id] + cut, v->token[id].len - cut);

		for (i = 0; i < v->num_merges; i++)
			if (v->merge[i].left == left && v->merge[i].right == right)
				break;
		if (left == UINT32_MAX || right == UINT32_MAX || i < v->num_merges)
			continue;
		v->merge[i] = (struct bpe_merge){ left, right };
		v->joined[v->num_merges++] = id;
	}
}

/* The rank of two symbols by the definition, and the token that they merge into. */
static uint32_t
rank(const struct vocabulary *v, uint32_t left, uint32_t right, uint32_t *joined)
{
	unsigned char bytes[2 * TOKEN_MAX];
	size_t n = v->token[left].len;

	for (size_t i = 0; i < v->num_merges; i++)
		if (v->merge[i].left == left && v->merge[i].right == right) {
			*joined = v->joined[i];
			return (uint32_t)i;
		}
	if (!v->ranks)
		return UINT32_MAX;
	memcpy(bytes, v->token[left].bytes, n);
	memcpy(bytes + n, v->token[right].bytes, v->token[right].len);
	*joined = find(v, bytes, n + v->token[right].len);
	return *joined;
}

/* The rule: lowest rank, leftmost. Ranks are looked up again only after a change. */
static size_t
slow(const struct vocabulary *v, const unsigned char *s, size_t n, uint32_t *id)
{
	uint32_t r[PIECE_MAX], joined[PIECE_MAX];

	id[0] = find(v, s, n);
	if (v->whole_piece && id[0] != UINT32_MAX)
		return 1;
	for (size_t i = 0; i < n; i++)
		id[i] = s[i];
	for (size_t i = 0; i + 1 < n; i++)
		r[i] = rank(v, id[i], id[i + 1], &joined[i]);
	while (n > 1) {
		size_t best = 0;

		for (size_t i = 1; i + 1 < n; i++)
			if (r[i] < r[best])
				best = i;
		if (r[best] == UINT32_MAX)
			break;
		id[best] = joined[best];
		n--;
		for (size_t i = best + 1; i < n; i++) {
			id[i] = id[i + 1];
			r[i - 1] = r[i];
			joined[i - 1] = joined[i];
		}
		if (best + 1 < n)
			r[best] = rank(v, id[best], id[best + 1], &joined[best]);
		if (best > 0)
			r[best - 1] = rank(v, id[best - 1], id[best], &joined[best - 1]);
	}
	return n;
}

static void
test_vocabulary(const struct vocabulary *v, struct mt19937 *rng, int kind)
{
	struct bpe_spec spec = { v->token, v->num_tokens, v->merge, v->num_merges, v->ranks,
		v->whole_piece, false };
	struct err e = { "" };
	struct bpe *b = bpe_new(&spec, NULL, &e);
	struct bpe_worker *w, *fresh;
	struct token_ids ids = { 0 };

	CHECK_STR(e.msg, "");
	if (!b)
		return;
	w = bpe_worker_new(b);
	for (int round = 0; round < PIECES / VOCABULARIES; round++) {
		unsigned char piece[PIECE_MAX];
		uint32_t want[PIECE_MAX];
		size_t n = random_bytes(rng, round % 5 ? kind / 4 % 4 : round / 5 % 4,
		    4 + below(rng, round % 7 ? 30 : PIECE_MAX - 4), piece);
		size_t count = slow(v, piece, n, want);

		fresh = round % 50 ? NULL : bpe_worker_new(b);
		ids.count = 0;
		bpe_encode_piece(fresh ? fresh : w, piece, n, &ids);
		CHECK(ids.count == count && !memcmp(ids.id, want, count * sizeof *want));
		bpe_worker_free(fresh);
	}
	token_ids_release(&ids);
	bpe_worker_free(w);
	bpe_free(b);
}

/* A text's ids are its pieces' ids, also at the text's end, where fewer than 16 bytes are left. */
static void
test_text(const struct vocabulary *v, struct mt19937 *rng)
{
	struct bpe_spec spec = { v->token, v->num_tokens, v->merge, v->num_merges, v->ranks,
		v->whole_piece, false };
	struct pretok *p = pretok_new(PRETOK_GPT2);
	struct token_ids ids = { 0 }, want = { 0 };
	struct bpe *b = bpe_new(&spec, NULL, &(struct err){ "" });
	struct bpe_worker *w = bpe_worker_new(b);

	for (int round = 0; round < PIECES / VOCABULARIES / 4; round++) {
		size_t max = 8 + below(rng, 4000), n, pos = 0, end;
		unsigned char *s = mem_alloc(max, 1);

		n = random_bytes(rng, round % 4, max, s);
		/* so that a sanitizer reports every byte read after it */
		s = mem_realloc(s, n, 1);
		ids.count = want.count = 0;
		bpe_encode_text(w, p, s, n, &ids);
		for (; pos < n; pos = end) {
			end = pretok_next(p, s, n, pos);
			bpe_encode_piece(w, s + pos, end - pos, &want);
		}
		CHECK(ids.count == want.count &&
		    !memcmp(ids.id, want.id, ids.count * sizeof *ids.id));
		/* after other pieces, and from the caches */
		bpe_encode_text(w, p, s, n, &ids);
		CHECK(ids.count == 2 * want.count &&
		    !memcmp(ids.id + want.count, want.id, want.count * sizeof *ids.id));
		free(s);
	}
	token_ids_release(&ids);
	token_ids_release(&want);
	bpe_worker_free(w);
	bpe_free(b);
	pretok_free(p);
}

int
main(void)
{
	struct vocabulary *v = mem_zalloc(1, sizeof *v);
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)check_seed());
	for (int kind = 0; kind < VOCABULARIES; kind++) {
		make(v, &rng, kind);
		if (kind >= 16 && !v->ranks)
			add_second_ways(v, &rng);
		test_vocabulary(v, &rng, kind);
		if (kind % 5 == 0)
			test_text(v, &rng);
	}
	free(v);
	return check_done();
}
