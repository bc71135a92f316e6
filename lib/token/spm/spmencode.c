/*
 * spmencode.c - text to ids by a SentencePiece model
 *
 * A text passes through a buffer of some kilobytes: it is normalised a part at a time, cut into
 * units (spmcut.h), and the units are encoded in groups, looked up in the cache first: all keys of
 * a group are made and their lines fetched before the first is read. The rest of the buffer waits
 * for the next part. So memory does not depend on the text, as long as it can be cut.
 */
#include "lib/base/mem.h"
#include "lib/base/utf8.h"
#include "lib/token/spm/spm_impl.h"
#include "lib/token/spm/spmcache.h"

#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
	GROUP = 256,
	GROUP_IDS = GROUP * CACHED_MAX + CACHED_PAD,
	PART = 16384,
	KEEP = 1 << 20,
	NARROW_COUNT = 1 << 16
};

struct spm_worker {
	struct spm_buffer text; /* normalised, not yet encoded */
	struct spmbpe_worker bpe;
	struct spmuni_worker uni;
	struct unit_cache cache;
	struct token_ids ids; /* of one unit */
	uint32_t after_unk;   /* 1 when the last id of this text is unk */
	const struct spm *model;
	struct token_ids *out; /* of this text */
};

/* A group of units with their keys. */
struct group {
	struct spm_unit unit[GROUP];
	struct unit_key key[GROUP];
	struct unit_entry *line[GROUP];
	size_t count;
};

/* The cache starts empty: no unit has length 0. */
struct spm_worker *
spm_worker_new(const struct spm *m)
{
	struct spm_worker *w = mem_zalloc(1, sizeof *w);

	w->model = m;
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

/* The end of a text's ids and the state that affects the next ones: a copy, for the loop over
 * units. */
struct ending {
	uint32_t *end;      /* has room after it */
	uint32_t after_unk; /* 1 when the last id of this text is unk */
	float score;
};

/*
 * The destination of n > 0 ids of a unit: over the last id, if that and the first new one are unk,
 * since a run of unknown characters is one unk even across units. The bits are an entry's.
 */
static inline uint32_t *
ids_place(struct ending *x, size_t n, uint32_t bits)
{
	uint32_t *id = x->end - (x->after_unk & bits >> UNIT_BEGINS_UNK);

	x->end = id + n;
	x->after_unk = bits >> UNIT_ENDS_UNK & 1;
	return id;
}

/* The bits for ids that begin or end with unk. */
static uint32_t
unk_bits(const struct spm *m, const uint32_t *id, size_t n)
{
	uint32_t unk = m->unknown.unk;

	return (uint32_t)(id[0] == unk) << UNIT_BEGINS_UNK |
	    (uint32_t)(id[n - 1] == unk) << UNIT_ENDS_UNK;
}

/* Makes room for that many ids. An unk at the end of the earlier ones may still be overwritten. */
static struct ending
begin_ids(const struct spm_worker *w, struct token_ids *out, size_t room)
{
	token_ids_pass(out, 1);
	token_ids_reserve(out, room);
	return (struct ending){ out->id + out->count, w->after_unk, w->uni.score };
}

/* Counts what was added. */
static void
end_ids(struct spm_worker *w, const struct ending *x, struct token_ids *out)
{
	out->count = (size_t)(x->end - out->id);
	w->after_unk = x->after_unk;
	w->uni.score = x->score;
}

/* Writes the ids from i on into an entry, followed by an id of no piece. */
static void
fill_entry(const struct spm *m, const struct token_ids *ids, size_t i, struct unit_entry *x)
{
	bool narrow = m->model.count < NARROW_COUNT;

	for (int k = 0; k < (narrow ? NARROW_MAX : WIDE_MAX); k++, i++) {
		uint32_t id = i < ids->count ? ids->id[i] : (uint32_t)m->model.count;

		if (narrow)
			x->id.narrow[k] = (uint16_t)id;
		else
			x->id.wide[k] = id;
	}
}

/* Puts the ids in w->ids into the cache, before the line's entries or instead of both, if
 * there are few enough. */
static void
keep(const struct spm *m, struct spm_worker *w, struct unit_entry *line, struct unit_key key,
    float bound)
{
	size_t most = m->model.count < NARROW_COUNT ? NARROW_MAX : WIDE_MAX;
	struct unit_entry rest = { .bound = 0 };

	if (w->ids.count > 2 * most || bound < 0)
		return;
	if (w->ids.count > most)
		fill_entry(m, &w->ids, most, &rest);
	else if (unit_count(&line[0]) <= most)
		rest = line[0];
	line[1] = rest;
	line[0].key = key;
	memcpy(&line[0].bound, &bound, sizeof bound);
	line[0].bound &= ~(uint32_t)0xff;
	line[0].bound |= (uint32_t)w->ids.count | unk_bits(m, w->ids.id, w->ids.count);
	fill_entry(m, &w->ids, 0, &line[0]);
}

/* A running score with those of ids added. Each addition is rounded to float once, as in the
 * search, where the sum of two floats is exact in double. */
static inline float
advance(const struct spm *m, float score, const uint32_t *id, size_t n)
{
	for (size_t i = 0; i < n; i++)
		score += m->uni.score[id[i]];
	return score;
}

/* Appends n > 0 ids of a unit to those of the text. */
static void
put_ids(void *ctx, const uint32_t *id, size_t n)
{
	struct spm_worker *w = ctx;
	struct ending x = begin_ids(w, w->out, n);

	memcpy(ids_place(&x, n, unk_bits(w->model, id, n)), id, n * sizeof *id);
	end_ids(w, &x, w->out);
}

/* Moves the ids of a unit, or of its beginning, to those of the text. */
static void
put_unit(void *ctx)
{
	struct spm_worker *w = ctx;

	if (w->ids.count)
		put_ids(w, w->ids.id, w->ids.count);
	w->ids.count = 0;
}

/* Encodes a unit that is not in the cache, or is cached only for smaller scores; line NULL: it is
 * not cached, as a symbol and a long unit are not. */
static void
add_unit(const struct spm *m, struct spm_worker *w, const unsigned char *p,
    const struct spm_unit *u, struct unit_entry *line, struct unit_key key)
{
	w->ids.count = 0;
	if (u->symbol) {
		token_ids_add(&w->ids, u->symbol - 1);
		put_unit(w);
		return;
	}
	switch (m->model.model) {
	case SP_BPE:
	case SP_CHAR:
		spmbpe_encode(&m->bpe, &w->bpe,
		    &(struct spmbpe_unit){ .bytes = p,
			.len = u->len,
			.unknown = &m->unknown,
			.out = &w->ids,
			.flush = line ? NULL : put_unit,
			.ctx = w });
		if (line)
			keep(m, w, line, key, FLT_MAX);
		break;
	case SP_WORD:
		spmuni_word(&m->uni, &m->unknown, p, u->len, &w->ids);
		if (line)
			keep(m, w, line, key, FLT_MAX);
		break;
	case SP_UNIGRAM:
		if (line) {
			float bound =
			    spmuni_encode_first(&m->uni, &w->uni, &m->unknown, p, u->len, &w->ids);

			keep(m, w, line, key, bound);
			if (fabsf(w->uni.score) < bound) {
				w->uni.score = advance(m, w->uni.score, w->ids.id, w->ids.count);
				break;
			}
			w->ids.count = 0;
		}
		spmuni_encode(&m->uni, &w->uni, &m->unknown, p, u->len, &w->ids);
		break;
	}
	put_unit(w);
}

/* Copies the ids of one entry, always as many as it has room for. */
static inline void
copy_ids(bool narrow, const struct unit_entry *e, uint32_t *id)
{
	if (narrow) {
		unit_narrow_ids from;
		unit_wide_ids to;

		memcpy(&from, (const char *)e + offsetof(struct unit_entry, id), sizeof from);
		to = __builtin_convertvector(from, unit_wide_ids);
		memcpy(id, &to, sizeof to);
	} else {
		memcpy(id, e->id.wide, sizeof e->id.wide);
	}
}

/* A running score with those of three ids of an entry, from one on. The last id is followed by that
 * of no piece, whose score is 0. */
static inline float
add_three(const struct spm *m, float score, bool narrow, const struct unit_entry *e, int from)
{
	for (int i = from; i < from + WIDE_MAX; i++)
		score += m->uni.score[narrow ? e->id.narrow[i] : e->id.wide[i]];
	return score;
}

/* Loop invariants of the loop over units. */
struct kind {
	bool unigram, narrow;
};

/* Adds the ids of an entry; unigram scores are added as in the search. False when the running score
 * exceeds the entry's bound. */
static inline bool
add_entry(const struct spm *m, struct kind kind, const struct unit_entry *e, struct ending *x)
{
	size_t n = unit_count(e), most = kind.narrow ? NARROW_MAX : WIDE_MAX;
	uint32_t *id;

	if (kind.unigram && fabsf(x->score) >= unit_bound(e))
		return false;
	id = ids_place(x, n, e->bound);
	copy_ids(kind.narrow, e, id);
	if (n > most)
		copy_ids(kind.narrow, e + 1, id + most);
	if (kind.unigram) {
		x->score = add_three(m, x->score, kind.narrow, e, 0);
		if (kind.narrow && n > WIDE_MAX)
			x->score = add_three(m, x->score, kind.narrow, e, WIDE_MAX);
		if (n > most)
			x->score = advance(m, x->score, id + most, n - most);
	}
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

/* The ids of all units of a group. */
__attribute__((always_inline)) static inline void
encode_group(const struct spm *m, struct spm_worker *w, const unsigned char *bytes, struct group *g,
    struct kind kind, struct token_ids *out)
{
	struct ending x = begin_ids(w, out, GROUP_IDS);

	fetch(w, bytes, g);
	for (size_t i = 0; i < g->count; i++) {
		const struct spm_unit *u = &g->unit[i];
		struct unit_entry *line = g->line[i];
		bool cached = (u->len <= UNIT_MAX) & !u->symbol,
		     second = unit_is(&line[1], g->key[i]),
		     hit = cached & (second | unit_is(&line[0], g->key[i]));

		if (!hit || !add_entry(m, kind, &line[second], &x)) {
			end_ids(w, &x, out);
			add_unit(m, w, bytes, u, cached && !hit ? line : NULL, g->key[i]);
			x = begin_ids(w, out, GROUP_IDS);
		}
		bytes += u->len;
	}
	end_ids(w, &x, out);
}

/* Encodes what can be cut from the buffer; all of it at the end of the text. */
static void
encode_buffer(const struct spm *m, struct spm_worker *w, bool final, struct token_ids *out)
{
	struct spm_buffer *b = &w->text;
	bool narrow = m->model.count < NARROW_COUNT;
	struct group g;

	do {
		const unsigned char *from = b->bytes + b->start;

		g.count = spmcut_next(&m->cut, b->bytes, &b->start, b->len, final, g.unit, GROUP);
		if (m->model.model != SP_UNIGRAM && narrow)
			encode_group(m, w, from, &g, (struct kind){ false, true }, out);
		else if (m->model.model != SP_UNIGRAM)
			encode_group(m, w, from, &g, (struct kind){ false, false }, out);
		else if (narrow)
			encode_group(m, w, from, &g, (struct kind){ true, true }, out);
		else
			encode_group(m, w, from, &g, (struct kind){ true, false }, out);
	} while (g.count);
	memmove(b->bytes, b->bytes + b->start, b->len - b->start);
	b->len -= b->start;
	b->start = 0;
}

/* Begins the ids of a text. */
static void
begin_text(struct spm_worker *w, struct token_ids *out)
{
	w->text.start = w->text.len = 0;
	w->uni.score = 0;
	w->after_unk = 0;
	w->out = out;
	w->ids.pass = put_ids;
	w->ids.ctx = w;
}

/* Large memory is freed: the next text may be short, and there may be many workers. */
static void
end_text(struct spm_worker *w)
{
	struct spm_buffer *b = &w->text;

	if (b->cap > KEEP) {
		free(b->bytes);
		*b = (struct spm_buffer){ 0 };
	}
	if (w->ids.cap > KEEP)
		token_ids_release(&w->ids);
	spmbpe_worker_trim(&w->bpe, KEEP);
	spmuni_worker_trim(&w->uni, KEEP);
}

/* A part that leaves much uncut is followed by a larger one, so that no text is tested too often.
 */
int
spm_encode(const struct spm *m, struct spm_worker *w, const char *text, size_t len,
    struct token_ids *out, struct err *e)
{
	struct spm_buffer *b = &w->text;
	struct norm_text t;
	bool more;

	if (len == 0)
		return 0;
	begin_text(w, out);
	if (!spmnorm_begin(&m->normalizer, &t, text, len, b))
		return 0;
	do {
		more = spmnorm_next(&m->normalizer, &t, b->len > PART ? b->len : PART, b);
		if (!more)
			spmnorm_end(&m->normalizer, b);
		if (b->len >= UINT32_MAX)
			return err_set(e, "more than 4294967294 bytes that cannot be cut");
		encode_buffer(m, w, !more, out);
	} while (more);
	end_text(w);
	return 0;
}

/* Blanks, and their mark, are as the normaliser would leave them. */
int
spm_encode_exact(const struct spm *m, struct spm_worker *w, const char *text, size_t len,
    struct token_ids *out, struct err *e)
{
	struct spm_buffer *b = &w->text;
	bool marks = m->model.normalizer.escape_whitespaces;

	if (!utf8_valid(text, len))
		return err_set(e, "not UTF-8");
	if (len == 0)
		return 0;
	begin_text(w, out);
	if (b->cap < len + SPM_PADDING) {
		b->cap = len + SPM_PADDING;
		b->bytes = mem_realloc(b->bytes, b->cap, 1);
	}
	for (size_t i = 0, n; i < len; i += n) {
		bool mark = marks && len - i >= 3 && !memcmp(text + i, "\xe2\x96\x81", 3);

		n = mark ? 3 : 1;
		b->bytes[b->len++] = mark ? SPM_BLANK : (unsigned char)text[i];
	}
	encode_buffer(m, w, true, out);
	end_text(w);
	return 0;
}
