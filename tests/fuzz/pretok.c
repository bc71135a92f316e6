/*
 * pretok.c - fuzz target: any bytes as text; the pieces of every scanner must cover them, the same
 * by blocks as one by one, and a small vocabulary must round-trip them
 */
#include "lib/token/bpe/bpe.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ENDS = 128, PARTS = 8, TOKENS = 256 + PARTS };

/* The bytes, and a few merged tokens, the last of which no merge produces. */
static struct bpe *
vocabulary(struct bpe_token token[TOKENS])
{
	static const char *const join[PARTS] = { " t", "he", " the", "\xe3\x81", "\x82\xe3",
		"\xe3\x81\x82", "''", "whole" };
	static const struct bpe_merge merge[PARTS - 1] = { { ' ', 't' }, { 'h', 'e' }, { 256, 257 },
		{ 0xe3, 0x81 }, { 0x82, 0xe3 }, { 259, 0x82 }, { '\'', '\'' } };
	static unsigned char byte[256];
	struct err e;

	for (int i = 0; i < 256; i++) {
		byte[i] = (unsigned char)i;
		token[i] = (struct bpe_token){ &byte[i], 1 };
	}
	for (int i = 0; i < PARTS; i++)
		token[256 + i] =
		    (struct bpe_token){ (const unsigned char *)join[i], (uint32_t)strlen(join[i]) };
	return bpe_new(&(struct bpe_spec){ .token = token,
			   .num_tokens = TOKENS,
			   .merge = merge,
			   .num_merges = PARTS - 1,
			   .whole_piece = true },
	    NULL, &e);
}

/* Both ways of splitting agree and cover the text. */
static void
cut(const struct pretok *p, const uint8_t *data, size_t size)
{
	struct pretok_text t = { data, size, 0 };
	uint32_t end[ENDS];
	size_t pos = 0, count;

	while ((count = pretok_ends(p, &t, end, ENDS)) > 0)
		for (size_t i = 0; i < count; pos = end[i++])
			if (end[i] <= pos || end[i] > size ||
			    pretok_next(p, data, size, pos) != end[i])
				abort();
	if (pos != size)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pretok *p[PRETOK_SCANNERS];
	static struct bpe_token token[TOKENS];
	static struct bpe_worker *w;
	struct token_ids ids = { 0 };
	size_t at = 0;

	if (!w)
		w = bpe_worker_new(vocabulary(token));
	for (int k = 0; k < PRETOK_SCANNERS; k++) {
		if (!p[k])
			p[k] = pretok_new((enum pretok_scanner)k);
		cut(p[k], data, size);
	}
	bpe_encode_text(w, p[size % PRETOK_SCANNERS], data, size, &ids);
	for (size_t i = 0; i < ids.count; at += token[ids.id[i++]].len)
		if (token[ids.id[i]].len > size - at ||
		    memcmp(token[ids.id[i]].bytes, data + at, token[ids.id[i]].len))
			abort();
	if (at != size)
		abort();
	token_ids_release(&ids);
	return 0;
}
