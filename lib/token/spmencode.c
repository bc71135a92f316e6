/*
 * spmencode.c - text to ids by a SentencePiece model
 *
 * A text passes through a buffer of some kilobytes: it is normalised a part at a time, cut into units
 * (spmcut.h), and the units are encoded in groups, looked up in the cache first: all keys of a group
 * are made and their lines fetched before the first is read. What is left of the buffer waits for
 * the next part. So memory does not depend on the text, as long as it can be cut.
 */
#include "lib/token/spm_impl.h"
#include "lib/token/spmcache.h"
#include "lib/base/mem.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 256, PART = 16384, KEEP = 1 << 20, NARROW_COUNT = 1 << 16 };

struct spm_worker {
	struct spm_buffer text;         /* normalised, not yet encoded */
	struct spmbpe_worker bpe;
	struct spmuni_worker uni;
	struct unit_cache cache;
	struct token_ids ids;           /* of one unit */
	bool after_unk;                 /* the last id is one unk for a run */
};

/* A group of units with their keys. */
struct group {
	struct spm_unit unit[GROUP];
	struct unit_key key[GROUP];
	struct unit_entry *line[GROUP];
	size_t count;
};

/* The cache begins empty: length 0 is no unit's. */
struct spm_worker *
spm_worker_new(const struct spm *m)
{
	struct spm_worker *w = mem_zalloc(1, sizeof *w);

	(void)m;
	w->cache.line = mem_zalloc_large(CACHE_LINES, sizeof *w->cache.line);
	return w;
}

/* NULL is fine. */
void
spm_worker_free(struct spm_worker *w)
{
	if (!w)
		return;
	spmbpe_worker_release(&w->bpe);
	spmuni_worker_release(&w->uni);
	token_ids_release(&w->ids);
	free(w->cache.line);
	free(w->text.bytes);
	free(w);
}

/* Runs of unknown characters are one unk also where a unit ends in between. */
static void
add_ids(const struct spm *m, struct spm_worker *w, const uint32_t *id, size_t n, struct token_ids *out)
{
	token_ids_reserve(out, n);
	for (size_t i = 0; i < n; i++) {
		bool unk = id[i] == m->unknown.unk;

		if (!unk || !w->after_unk)
			out->id[out->count++] = id[i];
		w->after_unk = unk && !m->unknown.bytes;
	}
}

/* Puts the ids in w->ids into the cache, in front of the line's entries, if there are few enough. */
static void
keep(const struct spm *m, struct spm_worker *w, struct unit_entry *line, struct unit_key key, float bound)
{
	bool narrow = m->model.count < NARROW_COUNT;
	struct unit_entry x = { .key = key };

	if (w->ids.count > (narrow ? NARROW_MAX : WIDE_MAX) || bound < 0)
		return;
	memcpy(&x.bound, &bound, sizeof bound);
	x.bound = (x.bound & ~(uint32_t)0xff) | (uint32_t)w->ids.count;
	for (size_t i = 0; i < (narrow ? NARROW_MAX : WIDE_MAX); i++) {
		uint32_t id = i < w->ids.count ? w->ids.id[i] : (uint32_t)m->model.count;

		if (narrow)
			x.id.narrow[i] = (uint16_t)id;
		else
			x.id.wide[i] = id;
	}
	line[1] = line[0];
	line[0] = x;
}

/* Adds the scores of known pieces to the running score. One rounding to float an addition: it is what
 * the search does, where the sum of two floats is exact in double. */
static inline void
advance(const struct spm *m, struct spm_worker *w, const uint32_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w->uni.score += m->uni.score[id[i]];
}

/* Encodes a unit that is not in the cache, or is for smaller scores only; line NULL: not to be
 * kept. */
static void
encode_unit(const struct spm *m, struct spm_worker *w, const unsigned char *p, size_t len,
    struct unit_entry *line, struct unit_key key)
{
	w->ids.count = 0;
	switch (m->model.model) {
	case SP_BPE:
	case SP_CHAR:
		spmbpe_encode(&m->bpe, &w->bpe, &m->unknown, m->cut.never ? &m->cut : NULL, p, len,
		    &w->ids);
		if (line)
			keep(m, w, line, key, FLT_MAX);
		break;
	case SP_WORD:
		spmuni_word(&m->uni, &m->unknown, p, len, &w->ids);
		if (line)
			keep(m, w, line, key, FLT_MAX);
		break;
	case SP_UNIGRAM:
		if (line) {
			float bound = spmuni_encode_first(&m->uni, &w->uni, &m->unknown, p, len, &w->ids);

			keep(m, w, line, key, bound);
			if (fabsf(w->uni.score) < bound) {
				advance(m, w, w->ids.id, w->ids.count);
				break;
			}
			w->ids.count = 0;
		}
		spmuni_encode(&m->uni, &w->uni, &m->unknown, p, len, &w->ids);
		break;
	}
}

/* Appends the ids of an entry, for which there is room; unigram scores are added up as the search
 * would have. False when the running score is beyond the entry's bound. */
static inline bool
add_entry(const struct spm *m, struct spm_worker *w, const struct unit_entry *e, struct token_ids *out)
{
	bool unigram = m->model.model == SP_UNIGRAM;
	uint32_t *id = out->id + out->count;
	size_t n = e->bound & 0xff;

	if (unigram && fabsf(w->uni.score) >= unit_bound(e))
		return false;
	if (m->model.count < NARROW_COUNT)
		for (int i = 0; i < NARROW_MAX; i++)
			id[i] = e->id.narrow[i];
	else
		memcpy(id, e->id.wide, sizeof e->id.wide);
	if (unigram) {
		/* Behind the ids stands that of no piece, whose score is 0: it adds nothing. */
		advance(m, w, id, WIDE_MAX);
		if (n > WIDE_MAX)
			advance(m, w, id + WIDE_MAX, n - WIDE_MAX);
	}
	if (m->unknown.bytes || !(w->after_unk || id[n - 1] == m->unknown.unk)) {
		out->count += n;
		return true;
	}
	/* Ids are written before the place where they are read. */
	add_ids(m, w, id, n, out);
	return true;
}

/* Keys and cache lines of the units that have any. */
static void
fetch(const struct spm_worker *w, const unsigned char *bytes, struct group *g)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct spm_unit *u = &g->unit[i];

		g->key[i] = unit_key(bytes, u->len & 15);
		g->line[i] = unit_line(&w->cache, g->key[i]);
		__builtin_prefetch(g->line[i]);
		bytes += u->len;
	}
}

/* A unit that the cache does not help with: a symbol, a long one, or one that is not there. */
static void
add_unit(const struct spm *m, struct spm_worker *w, const unsigned char *p, const struct spm_unit *u,
    struct unit_entry *line, struct unit_key key, struct token_ids *out)
{
	if (u->symbol) {
		add_ids(m, w, &(uint32_t){ u->symbol - 1 }, 1, out);
		return;
	}
	encode_unit(m, w, p, u->len, line, key);
	add_ids(m, w, w->ids.id, w->ids.count, out);
}

/* The ids of all units of a group. */
static void
encode_group(const struct spm *m, struct spm_worker *w, const unsigned char *bytes, struct group *g,
    struct token_ids *out)
{
	fetch(w, bytes, g);
	token_ids_reserve(out, GROUP * CACHED_MAX);
	for (size_t i = 0; i < g->count; i++) {
		const struct spm_unit *u = &g->unit[i];
		struct unit_entry *line = g->line[i];
		bool cached = (u->len <= UNIT_MAX) & !u->symbol, second = unit_is(&line[1], g->key[i]),
		     hit = cached & (second | unit_is(&line[0], g->key[i]));

		if (!hit || !add_entry(m, w, &line[second], out)) {
			add_unit(m, w, bytes, u, cached && !hit ? line : NULL, g->key[i], out);
			token_ids_reserve(out, GROUP * CACHED_MAX);
		}
		bytes += u->len;
	}
}

/* Encodes what can be cut off the buffer, all of it at the end of the text. */
static void
encode_buffer(const struct spm *m, struct spm_worker *w, bool final, struct token_ids *out)
{
	struct spm_buffer *b = &w->text;
	struct group g;

	do {
		size_t start = b->start;

		g.count = spmcut_next(&m->cut, b->bytes, &b->start, b->len, final, g.unit, GROUP);
		encode_group(m, w, b->bytes + start, &g, out);
	} while (g.count);
	memmove(b->bytes, b->bytes + b->start, b->len - b->start);
	b->len -= b->start;
	b->start = 0;
}

/* Large memory is given back: the next text may be short, and there may be many workers. */
static void
trim(struct spm_worker *w)
{
	if (w->text.cap > KEEP) {
		free(w->text.bytes);
		w->text = (struct spm_buffer){ 0 };
	}
	if (w->ids.cap > KEEP)
		token_ids_release(&w->ids);
	spmbpe_worker_trim(&w->bpe, KEEP);
	spmuni_worker_trim(&w->uni, KEEP);
}

/* A part that leaves much uncut is followed by a larger one, so that nothing is looked at too
 * often. */
int
spm_encode(const struct spm *m, struct spm_worker *w, const char *text, size_t len,
    struct token_ids *out, struct err *e)
{
	struct spm_buffer *b = &w->text;
	struct norm_text t;
	bool more;

	if (len == 0)
		return 0;
	b->start = b->len = 0;
	w->uni.score = 0;
	w->after_unk = false;
	if (!spmnorm_begin(&m->normalizer, &t, text, len, b))
		return 0;
	do {
		more = spmnorm_next(&m->normalizer, &t, b->len > PART ? b->len : PART, b);
		if (!more)
			spmnorm_end(&m->normalizer, b);
		if (b->len >= UINT32_MAX)
			return err_set(e, "more than 4294967294 bytes in one piece that cannot be cut");
		encode_buffer(m, w, !more, out);
	} while (more);
	trim(w);
	return 0;
}
