/*
 * samples.c - building the three index maps of one corpus and one split, and reading samples
 * through them
 *
 * The order of draws is Megatron-LM's: one MT19937 per split, seeded anew, first the document
 * index, then the shuffle index. Source: Megatron-LM core/datasets/gpt_dataset.py,
 * _build_document_sample_shuffle_indices; helpers.cpp, build_sample_idx.
 */
#include "lib/format/samples_impl.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"
#include "lib/base/rng.h"

#include <stdlib.h>
#include <string.h>

/*
 * Maps from a cache have the type that their writer chose and may lie unaligned, hence memcpy. i is
 * not checked: maps from files were proved to fit when they were loaded.
 */
int64_t
index_map_get(const struct index_map *m, int64_t i)
{
	const char *p = m->data;
	int64_t i64;
	int32_t i32;
	uint32_t u32;

	switch (m->dtype) {
	case DTYPE_I32:
		memcpy(&i32, p + 4 * i, 4);
		return i32;
	case DTYPE_U32:
		memcpy(&u32, p + 4 * i, 4);
		return u32;
	default:
		memcpy(&i64, p + 8 * i, 8);
		return i64;
	}
}

/* Unmaps or frees, whichever it was. */
void
index_map_release(struct index_map *m)
{
	npy_close(&m->file);
	free(m->own);
	memset(m, 0, sizeof *m);
}

/* Fresh memory for a map of our own; returns it for filling. */
static void *
index_map_alloc(struct index_map *m, enum dtype t, int64_t count)
{
	m->dtype = t;
	m->own = mem_alloc((size_t)count, dtype_size(t));
	m->data = m->own;
	return m->own;
}

/*
 * The legacy shuffle of NumPy's RandomState: from the end down, swap with an earlier one or itself.
 * Signed and unsigned 32-bit maps share it.
 */
static void
shuffle32(struct mt19937 *rng, uint32_t *a, int64_t n)
{
	for (int64_t i = n - 1; i > 0; i--) {
		uint64_t j = mt19937_interval(rng, (uint64_t)i);
		uint32_t t = a[i];

		a[i] = a[j];
		a[j] = t;
	}
}

/* The same draws for 64-bit elements. */
static void
shuffle64(struct mt19937 *rng, int64_t *a, int64_t n)
{
	for (int64_t i = n - 1; i > 0; i--) {
		uint64_t j = mt19937_interval(rng, (uint64_t)i);
		int64_t t = a[i];

		a[i] = a[j];
		a[j] = t;
	}
}

/* Which sequences in which order: every epoch's, shuffled together, the last one apart when it is
 * only partly used. */
static void
build_document_index(struct samples *s, struct mt19937 *rng)
{
	uint32_t *doc = index_map_alloc(&s->document, DTYPE_I32, s->num_positions);
	int64_t per_epoch = s->end - s->begin,
		together = s->num_positions - (s->separate ? per_epoch : 0);

	for (int64_t i = 0; i < s->num_positions; i++)
		doc[i] = (uint32_t)(s->begin + i % per_epoch);
	shuffle32(rng, doc, together);
	shuffle32(rng, doc + together, s->num_positions - together);
}

/* Consumes seq_length + extra tokens; with the extra one the next sample starts at the last token
 * of this one. */
int
samples_walk(const struct samples *s, struct walk *w)
{
	int64_t missing = s->seq_length + s->extra;

	for (;;) {
		int64_t len = dataset_length(s->d, index_map_get(&s->document, w->position));

		missing -= len - w->offset;
		if (missing <= 0) {
			w->offset = len + missing - s->extra;
			return 0;
		}
		if (w->position + 1 == s->num_positions) {
			w->offset = len - s->extra;
			return s->drop ? -1 : 0;
		}
		w->position++;
		w->offset = 0;
	}
}

/* Where each sample begins: rows of position and offset. 32 bits suffice unless there are too many
 * positions. */
static void
build_sample_index(struct samples *s)
{
	bool wide = s->num_positions > INT32_MAX;
	void *rows = index_map_alloc(&s->row, wide ? DTYPE_I64 : DTYPE_I32, 2 * (s->count + 1));
	struct walk w = { 0, 0 };

	for (int64_t i = 0; i <= s->count; i++) {
		if (wide) {
			((int64_t *)rows)[2 * i] = w.position;
			((int64_t *)rows)[2 * i + 1] = w.offset;
		} else {
			((int32_t *)rows)[2 * i] = (int32_t)w.position;
			((int32_t *)rows)[2 * i + 1] = (int32_t)w.offset;
		}
		if (i < s->count && samples_walk(s, &w) < 0)
			BUG("%lld samples do not fit the document index", (long long)s->count);
	}
}

/* In which order samples are drawn. */
static void
build_shuffle_index(struct samples *s, struct mt19937 *rng)
{
	int64_t first = s->separate ? s->before : s->count;

	if (s->count < (int64_t)UINT32_MAX - 1) {
		uint32_t *a = index_map_alloc(&s->shuffle, DTYPE_U32, s->count);

		for (int64_t i = 0; i < s->count; i++)
			a[i] = (uint32_t)i;
		shuffle32(rng, a, first);
		shuffle32(rng, a + first, s->count - first);
	} else {
		int64_t *a = index_map_alloc(&s->shuffle, DTYPE_I64, s->count);

		for (int64_t i = 0; i < s->count; i++)
			a[i] = i;
		shuffle64(rng, a, first);
		shuffle64(rng, a + first, s->count - first);
	}
}

/*
 * What the options of the caller must satisfy. The seed is bounded by what RandomState takes; the
 * length by the 32 bits of an offset.
 */
static int
check_config(const struct samples_config *c, struct err *e)
{
	if (c->seq_length < 1 || c->seq_length > INT32_MAX - 1)
		return err_set(e, "sequence length %lld: must be from 1 to %d",
		    (long long)c->seq_length, INT32_MAX - 1);
	if (c->num_samples < -1)
		return err_set(
		    e, "%lld samples wanted: must not be negative", (long long)c->num_samples);
	if (c->seed < 0 || c->seed > (int64_t)UINT32_MAX)
		return err_set(
		    e, "seed %lld: must be from 0 to %u", (long long)c->seed, UINT32_MAX);
	return 0;
}

/* The split's sequences and their tokens; too few to train on is an error. */
static int
find_range(struct samples *s, const struct samples_config *c, struct err *e)
{
	int64_t n = dataset_num_sequences(s->d);
	const char *prefix = dataset_prefix(s->d), *name = split_name[c->which];

	if (n > INT32_MAX)
		return err_at(
		    e, prefix, 0, "%lld sequences; index maps reach %d", (long long)n, INT32_MAX);
	s->end = n;
	if (c->split) {
		if (split_parse(c->split, &s->matrix, e) < 0)
			return -1;
		if (!s->matrix.present[c->which])
			return err_at(e, prefix, 0, "no %s split: its share in --split '%s' is 0",
			    name, c->split);
		split_range(&s->matrix, c->which, n, &s->begin, &s->end);
	}
	for (int64_t i = s->begin; i < s->end; i++)
		s->tokens_per_epoch += dataset_length(s->d, i);
	if (s->tokens_per_epoch >= 2)
		return 0;
	return err_at(e, prefix, 0,
	    "the %s split has %lld tokens: --split '%s' gives it the share %.6g of %lld sequences, "
	    "which is %lld; at least 2 tokens are needed",
	    name, (long long)s->tokens_per_epoch, c->split ? c->split : "",
	    c->split ? s->matrix.end[c->which] - s->matrix.begin[c->which] : 1.0, (long long)n,
	    (long long)(s->end - s->begin));
}

/*
 * Epochs, number of samples, and whether the last epoch is kept apart: it is when less than 80 % of
 * it is used, else it is shuffled with the others. The factor and its rounding are Megatron-LM's,
 * on which the shuffle depends.
 */
static int
plan(struct samples *s, const struct samples_config *c, struct err *e)
{
	int64_t t = s->tokens_per_epoch, x = s->extra, len = s->seq_length, want, all;

	s->num_epochs = 1;
	if (c->num_samples > 0) {
		if (__builtin_mul_overflow(c->num_samples, len, &want) || want > INT64_MAX - x - t)
			return err_set(e,
			    "%lld samples of %lld tokens: more tokens than 63 bits count",
			    (long long)c->num_samples, (long long)len);
		s->num_epochs = (want + x + t - 1) / t;
	}
	/* num_epochs * t < want + x + t, which fits; the number of positions need not when
	 * sequences are empty. */
	all = s->num_epochs * t;
	if (__builtin_mul_overflow(s->num_epochs, s->end - s->begin, &s->num_positions))
		return err_set(e, "%lld epochs of %lld sequences: more than 63 bits count",
		    (long long)s->num_epochs, (long long)(s->end - s->begin));
	s->count = (all - x) / len + (!s->drop && (all - x) % len != 0);
	if (s->num_epochs > 1) {
		s->before = (all - t - x) / len;
		s->separate =
		    c->num_samples - s->before < (int64_t)(0.80 * (double)((t - x) / len));
	}
	return 0;
}

/*
 * Takes the maps from the cache or builds them. One generator serves document and shuffle index in
 * this order, though the sample index, which draws nothing, is built between them.
 */
static int
make_maps(struct samples *s, const struct samples_config *c, struct err *e)
{
	struct str description = { 0 };
	struct mt19937 rng;
	int rc = 0;

	samples_description(s->d, c, &description);
	hash_md5_hex(description.buf, description.len, s->hash);
	s->from_cache = samples_load(s, c, &description);
	if (!s->from_cache) {
		mt19937_seed(&rng, (uint32_t)c->seed);
		build_document_index(s, &rng);
		build_sample_index(s);
		build_shuffle_index(s, &rng);
		if (c->write_cache)
			rc = samples_store(s, c, &description, e);
	}
	str_release(&description);
	return rc;
}

/* Everything that can be refused is refused before the maps are built. */
struct samples *
samples_open(const struct dataset *d, const struct samples_config *c, struct err *e)
{
	struct samples *s = mem_zalloc(1, sizeof *s);

	s->d = d;
	s->seq_length = c->seq_length;
	s->extra = c->add_extra_token;
	s->drop = c->drop_last_partial;
	if (check_config(c, e) < 0 || find_range(s, c, e) < 0 || plan(s, c, e) < 0 ||
	    make_maps(s, c, e) < 0) {
		samples_close(s);
		return NULL;
	}
	return s;
}

/* The dataset stays open; it is the caller's. */
void
samples_close(struct samples *s)
{
	if (!s)
		return;
	index_map_release(&s->document);
	index_map_release(&s->row);
	index_map_release(&s->shuffle);
	free(s);
}

/* What can be drawn; at least the number asked for, since epochs are whole. */
int64_t
samples_count(const struct samples *s)
{
	return s->count;
}

/* 1 when no number of samples was asked for. */
int64_t
samples_num_epochs(const struct samples *s)
{
	return s->num_epochs;
}

/* Of the split, not of the corpus. */
int64_t
samples_tokens_per_epoch(const struct samples *s)
{
	return s->tokens_per_epoch;
}

/* True when the last epoch is shuffled for itself. */
bool
samples_separate_final_epoch(const struct samples *s)
{
	return s->separate;
}

/* For messages: the maps are the same either way. */
bool
samples_from_cache(const struct samples *s)
{
	return s->from_cache;
}

/* 32 hexadecimal digits, the first part of the names of the maps; lives as long as s. */
const char *
samples_hash(const struct samples *s)
{
	return s->hash;
}

/* The part of a sample that lies at one position; count may be 0. */
static struct sample_part
part_at(const struct samples *s, int64_t position, const struct walk *from, const struct walk *to)
{
	struct sample_part p = { .sequence = index_map_get(&s->document, position) };

	p.first = position == from->position ? from->offset : 0;
	p.count =
	    (position == to->position ? to->offset + s->extra : dataset_length(s->d, p.sequence)) -
	    p.first;
	return p;
}

/*
 * Both rows of a sample: where it begins, and where the next one in the order of the corpus does.
 */
static void
find_rows(const struct samples *s, int64_t sample, struct walk *from, struct walk *to)
{
	int64_t j;

	if (sample < 0 || sample >= s->count)
		BUG("sample %lld of %lld", (long long)sample, (long long)s->count);
	j = samples_shuffle_index(s, sample);
	samples_sample_index(s, j, &from->position, &from->offset);
	samples_sample_index(s, j + 1, &to->position, &to->offset);
}

/* Parts of no tokens, as empty sequences give, are left out. */
int64_t
samples_parts(const struct samples *s, int64_t sample, struct sample_part *out, int64_t cap)
{
	struct walk from, to;
	int64_t n = 0;

	find_rows(s, sample, &from, &to);
	for (int64_t i = from.position; i <= to.position; i++) {
		struct sample_part p = part_at(s, i, &from, &to);

		if (p.count > 0 && n < cap)
			out[n] = p;
		n += p.count > 0;
	}
	return n;
}

/* One part after the other, however many there are. */
int64_t
samples_tokens(const struct samples *s, int64_t sample, int64_t *out, struct err *e)
{
	struct walk from, to;
	int64_t n = 0;

	find_rows(s, sample, &from, &to);
	for (int64_t i = from.position; i <= to.position; i++) {
		struct sample_part p = part_at(s, i, &from, &to);

		if (p.count > 0) {
			if (dataset_tokens(s->d, p.sequence, p.first, p.count, out + n, e) < 0)
				return -1;
			n += p.count;
		}
	}
	return n;
}

/* Which sequence stands at position i of the shuffled epochs. */
int64_t
samples_document_index(const struct samples *s, int64_t i)
{
	return index_map_get(&s->document, i);
}

/* Sequences of the split times epochs. */
int64_t
samples_document_index_length(const struct samples *s)
{
	return s->num_positions;
}

/* Row i; row `count` is the end of the last sample. */
void
samples_sample_index(const struct samples *s, int64_t i, int64_t *position, int64_t *offset)
{
	*position = index_map_get(&s->row, 2 * i);
	*offset = index_map_get(&s->row, 2 * i + 1);
}

/* Which sample of the sample index is drawn i-th. */
int64_t
samples_shuffle_index(const struct samples *s, int64_t i)
{
	return index_map_get(&s->shuffle, i);
}
