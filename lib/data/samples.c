/*
 * samples.c - planning the samples of one corpus and one split, and reading them through the maps
 */
#include "lib/base/mem.h"
#include "lib/data/samples_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * Maps from a cache have the type that their writer chose and may be unaligned, hence memcpy. i is
 * not checked: maps from files are validated when they are loaded.
 */
int64_t
index_map_get(const struct index_map *m, int64_t i)
{
	const char *p = m->data;
	int64_t i64;
	int32_t i32;
	uint32_t u32;
	int16_t i16;

	switch (m->dtype) {
	case DTYPE_I16: memcpy(&i16, p + 2 * i, 2); return i16;
	case DTYPE_I32: memcpy(&i32, p + 4 * i, 4); return i32;
	case DTYPE_U32: memcpy(&u32, p + 4 * i, 4); return u32;
	default: memcpy(&i64, p + 8 * i, 8); return i64;
	}
}

/* The type of nearly all maps has a loop without a branch per element. */
void
index_map_copy(const struct index_map *m, int64_t from, int64_t n, int64_t *out)
{
	const char *p = (const char *)m->data + 4 * from;

	if (m->dtype != DTYPE_I32) {
		for (int64_t i = 0; i < n; i++)
			out[i] = index_map_get(m, from + i);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		int32_t v;

		memcpy(&v, p + 4 * i, 4);
		out[i] = v;
	}
}

void
index_map_release(struct index_map *m)
{
	npy_close(&m->file);
	free(m->own);
	memset(m, 0, sizeof *m);
}

/*
 * The bound of the seed is RandomState's; that of the length is the 32 bits of an offset.
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

/* The first of the last sequences before `end` that together have 2 tokens; -1: all before it have
 * fewer. */
static int64_t
last_with_tokens(const struct dataset *d, int64_t end)
{
	int64_t tokens = 0;

	while (end > 0 && tokens < 2)
		tokens += dataset_length(d, --end);
	return tokens < 2 ? -1 : end;
}

/* Shares, in sequences, that give tokens to every split that is present, with as few as possible
 * for the later ones. False when there are too few tokens. */
static bool
propose_split(const struct samples *s, char text[72])
{
	int64_t count[SPLIT_COUNT] = { 0 }, end = dataset_num_sequences(s->d), begin, from, to;
	struct split_matrix m;
	int first = 0;

	while (!s->matrix.present[first])
		first++;
	for (int i = SPLIT_COUNT - 1; i >= first; i--) {
		if (!s->matrix.present[i])
			continue;
		begin = last_with_tokens(s->d, end);
		if (begin < 0)
			return false;
		count[i] = i == first ? end : end - begin;
		end = begin;
	}
	snprintf(text, 72, "%lld,%lld,%lld", (long long)count[0], (long long)count[1],
	    (long long)count[2]);
	if (split_parse(text, &m, NULL) < 0)
		return false;
	for (int i = first; i < SPLIT_COUNT; i++) {
		split_range(&m, (enum split)i, dataset_num_sequences(s->d), &from, &to);
		if (to - from != count[i])
			return false;
	}
	return true;
}

/* The reason why the split cannot be trained on, and a --split that would work, if there is one. */
static int
too_few_tokens(const struct samples *s, const struct samples_config *c, struct err *e)
{
	const char *prefix = dataset_prefix(s->d), *name = split_name[c->which];
	char split[72], way_out[128] = "";
	long long n = (long long)dataset_num_sequences(s->d), t = (long long)s->tokens_per_epoch;

	if (!c->split)
		return err_at(e, prefix, 0,
		    "%lld tokens in %lld sequences, for the %s split; at least 2 tokens are needed",
		    t, n, name);
	if (propose_split(s, split))
		snprintf(way_out, sizeof way_out, ": --split %s gives some to every split", split);
	else if (last_with_tokens(s->d, n) >= 0)
		snprintf(way_out, sizeof way_out, ": --split 1,0,0 takes all of it for training");
	return err_at(e, prefix, 0,
	    "the %s split has %lld tokens: --split '%s' gives it the share %.6g of %lld sequences, "
	    "which is %lld; at least 2 tokens are needed%s",
	    name, t, c->split, s->matrix.end[c->which] - s->matrix.begin[c->which], n,
	    (long long)(s->end - s->begin), way_out);
}

/* Sets the split's sequences and tokens. Too few to train on is an error: Megatron-LM would search
 * for enough epochs for ever. */
static int
find_range(struct samples *s, const struct samples_config *c, struct err *e)
{
	int64_t n = dataset_num_sequences(s->d);
	const char *prefix = dataset_prefix(s->d);

	if (n > INT32_MAX)
		return err_at(e, prefix, 0, "%lld sequences: index maps number at most %d",
		    (long long)n, INT32_MAX);
	s->end = n;
	if (c->split) {
		if (split_parse(c->split, &s->matrix, e) < 0)
			return -1;
		if (!s->matrix.present[c->which])
			return err_at(e, prefix, 0, "no %s split: its share in --split '%s' is 0",
			    split_name[c->which], c->split);
		split_range(&s->matrix, c->which, n, &s->begin, &s->end);
	}
	for (int64_t i = s->begin; i < s->end; i++)
		s->tokens_per_epoch += dataset_length(s->d, i);
	dataset_forget(s->d);
	return s->tokens_per_epoch >= 2 ? 0 : too_few_tokens(s, c, e);
}

/*
 * Sets the number of epochs and samples, and whether the last epoch is shuffled separately: it is
 * when less than 80 % of it is used. The factor and its rounding are Megatron-LM's, because the
 * shuffle depends on them.
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
	/* num_epochs * t < want + x + t, which fits; the number of positions may not fit when
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

/* Makes every check before the maps are built. */
struct samples *
samples_plan(const struct dataset *d, const struct samples_config *c, struct err *e)
{
	struct samples *s = mem_zalloc(1, sizeof *s);

	s->d = d;
	s->which = c->which;
	s->num_samples = c->num_samples;
	s->seq_length = c->seq_length;
	s->extra = c->add_extra_token;
	s->drop = c->drop_last_partial;
	s->seed = (uint32_t)c->seed;
	s->packing = c->packing;
	s->long_documents = c->long_documents;
	if (check_config(c, e) < 0 || find_range(s, c, e) < 0 ||
	    (s->packing == PACKING_BEST_FIT ? samples_plan_bins(s, e) : plan(s, c, e)) < 0) {
		samples_close(s);
		return NULL;
	}
	return s;
}

/* Maps that were not taken stay unchanged unless they may be written. */
int
samples_fill(
    struct samples *s, const struct samples_config *c, struct map_cache *cache, struct err *e)
{
	struct str description = { 0 };
	enum cache_state state;
	int rc = 0;

	samples_description(s->d, c, &description);
	state = samples_load(s, c, cache, &description);
	s->from_cache = state == CACHE_PROVED || state == CACHE_KEYED;
	if (!s->from_cache)
		samples_build(s);
	if (c->write_cache && !s->from_cache)
		rc = samples_store(s, c, &description, cache, e);
	else if (c->write_cache && state == CACHE_PROVED)
		samples_store_key(s, c, cache);
	str_release(&description);
	return rc;
}

/* The dataset stays open: it belongs to the caller. */
void
samples_close(struct samples *s)
{
	if (!s)
		return;
	index_map_release(&s->document);
	index_map_release(&s->row);
	index_map_release(&s->shuffle);
	index_map_release(&s->item);
	free(s->note);
	free(s);
}

/* At least the number requested, since epochs are whole. */
int64_t
samples_count(const struct samples *s)
{
	return s->count;
}

/* 1 when no number of samples was requested. */
int64_t
samples_num_epochs(const struct samples *s)
{
	return s->num_epochs;
}

/* The tokens of the split, not of the corpus. */
int64_t
samples_tokens_per_epoch(const struct samples *s)
{
	return s->tokens_per_epoch;
}

/* True when the last epoch is shuffled separately. */
bool
samples_separate_final_epoch(const struct samples *s)
{
	return s->separate;
}

/* The request that determined the counts; -1: one epoch. */
int64_t
samples_num_samples(const struct samples *s)
{
	return s->num_samples;
}

/* Valid as long as s. */
const char *
samples_note(const struct samples *s)
{
	return s->note;
}

double
samples_epochs(const struct samples *s, int64_t samples)
{
	return s->packing == PACKING_BEST_FIT
	    ? (double)samples / (double)s->bins
	    : (double)samples * (double)s->seq_length / (double)s->tokens_per_epoch;
}

double
samples_fullness(const struct samples *s)
{
	return s->packing == PACKING_BEST_FIT
	    ? (double)s->tokens_per_epoch / (double)s->bins / (double)(s->seq_length + s->extra)
	    : 1;
}

/* For messages: the maps are the same either way. */
bool
samples_from_cache(const struct samples *s)
{
	return s->from_cache;
}

/* 32 hexadecimal digits, the first part of the names of the maps; valid as long as s. */
const char *
samples_hash(const struct samples *s)
{
	return s->hash;
}

/* A row of the sample index. */
struct place {
	int64_t position, offset;
};

/* The part of a sample that lies at one position; count may be 0. A bin ends before the position
 * where the next one begins. */
static struct sample_part
part_at(const struct samples *s, int64_t position, const struct place *from, const struct place *to)
{
	struct sample_part p = { 0 };

	if (s->packing == PACKING_BEST_FIT)
		return position < to->position ? samples_packed_part(s, position) : p;
	p.sequence = index_map_get(&s->document, position);
	p.first = position == from->position ? from->offset : 0;
	p.count =
	    (position == to->position ? to->offset + s->extra : dataset_length(s->d, p.sequence)) -
	    p.first;
	return p;
}

/*
 * Both rows of a sample: its beginning, and that of the next one in the order of the corpus.
 */
static void
find_rows(const struct samples *s, int64_t sample, struct place *from, struct place *to)
{
	int64_t j;

	if (sample < 0 || sample >= s->count)
		BUG("sample %lld of %lld", (long long)sample, (long long)s->count);
	j = samples_shuffle_index(s, sample);
	samples_sample_index(s, j, &from->position, &from->offset);
	samples_sample_index(s, j + 1, &to->position, &to->offset);
}

/* Parts without tokens, which come from empty sequences, are skipped. */
int64_t
samples_parts(const struct samples *s, int64_t sample, struct sample_part *out, int64_t cap)
{
	struct place from, to;
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

/* Copies the parts one after the other: tokens, or, where out is NULL, bytes of the mask. */
static int64_t
copy_parts(const struct samples *s, int64_t sample, int64_t *out, uint8_t *mask, struct err *e)
{
	struct place from, to;
	int64_t n = 0;

	find_rows(s, sample, &from, &to);
	for (int64_t i = from.position; i <= to.position; i++) {
		struct sample_part p = part_at(s, i, &from, &to);
		int rc = 0;

		if (p.count <= 0)
			continue;
		if (out)
			rc = dataset_tokens(s->d, p.sequence, p.first, p.count, out + n, e);
		else
			rc = dataset_weights(s->d, p.sequence, p.first, p.count, mask + n, e);
		if (rc < 0)
			return -1;
		n += p.count;
	}
	return n;
}

int64_t
samples_tokens(const struct samples *s, int64_t sample, int64_t *out, struct err *e)
{
	return copy_parts(s, sample, out, NULL, e);
}

int64_t
samples_weights(const struct samples *s, int64_t sample, uint8_t *out, struct err *e)
{
	return copy_parts(s, sample, NULL, out, e);
}

/* The first sample of the sample index that ends at a position or after it. */
static int64_t
row_ending_at(const struct samples *s, int64_t position)
{
	int64_t low = 0, high = s->count, at, offset;

	while (low < high) {
		int64_t middle = low + (high - low) / 2;

		samples_sample_index(s, middle + 1, &at, &offset);
		if (at < position)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Whether a sample of the sample index has a token of a sequence of [first, end). */
static bool
row_reads(const struct samples *s, int64_t row, int64_t first, int64_t end)
{
	struct place from, to;

	samples_sample_index(s, row, &from.position, &from.offset);
	samples_sample_index(s, row + 1, &to.position, &to.offset);
	for (int64_t i = from.position; i <= to.position; i++) {
		struct sample_part p = part_at(s, i, &from, &to);

		if (p.count > 0 && p.sequence >= first && p.sequence < end)
			return true;
	}
	return false;
}

/* The sequence of a position of the document index. */
static int64_t
sequence_at(const struct samples *s, int64_t position)
{
	return s->packing == PACKING_BEST_FIT ? samples_packed_part(s, position).sequence
					      : index_map_get(&s->document, position);
}

/* Rows by bisection for each place of the sequences in the document index, then one pass over the
 * shuffle. */
int64_t
samples_reading(const struct samples *s, int64_t first, int64_t end, int64_t **out)
{
	uint8_t *reads = mem_zalloc((size_t)(s->count / 8 + 1), 1);
	int64_t n = 0, cap = 0, at, offset;

	*out = NULL;
	for (int64_t p = 0; p < s->num_positions; p++) {
		int64_t sequence = sequence_at(s, p);

		if (sequence < first || sequence >= end)
			continue;
		for (int64_t row = row_ending_at(s, p); row < s->count; row++) {
			samples_sample_index(s, row, &at, &offset);
			if (at > p)
				break;
			if (row_reads(s, row, first, end))
				reads[row / 8] |= (uint8_t)(1 << row % 8);
		}
	}
	for (int64_t i = 0; i < s->count; i++) {
		int64_t row = samples_shuffle_index(s, i);

		if (!(reads[row / 8] >> row % 8 & 1))
			continue;
		if (n == cap)
			*out = mem_realloc(*out, (size_t)(cap = 2 * cap + 64), sizeof **out);
		(*out)[n++] = i;
	}
	free(reads);
	return n;
}

/* Row i; row `count` is the end of the last sample. */
void
samples_sample_index(const struct samples *s, int64_t i, int64_t *position, int64_t *offset)
{
	*position = index_map_get(&s->row, 2 * i);
	*offset = index_map_get(&s->row, 2 * i + 1);
}

/* The sample of the sample index that is drawn i-th. */
int64_t
samples_shuffle_index(const struct samples *s, int64_t i)
{
	return index_map_get(&s->shuffle, i);
}
