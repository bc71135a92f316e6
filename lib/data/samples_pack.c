/*
 * samples_pack.c - the maps of one corpus and one split whose sequences are packed, not cut
 *
 * An epoch draws twice from one generator: the order of its items, which decides between bins of
 * equal room, and the order of its bins. The number of bins is the same in every epoch, so an epoch
 * is a stretch of all three maps.
 */
#include "lib/base/mem.h"
#include "lib/data/samples_impl.h"

#include <stdlib.h>

/* What is packed: pieces of sequences, of 2 tokens to a whole bin. */
struct items {
	int32_t *length;    /* [count] */
	uint32_t *sequence; /* [count] */
	int32_t *first;     /* [count] */
	int64_t count, cap;
};

static void
add_item(struct items *x, int64_t sequence, int64_t first, int64_t length)
{
	if (length < 2)
		return;
	if (x->count == x->cap) {
		x->cap = 2 * x->cap + 1024;
		x->length = mem_realloc(x->length, (size_t)x->cap, sizeof *x->length);
		x->sequence = mem_realloc(x->sequence, (size_t)x->cap, sizeof *x->sequence);
		x->first = mem_realloc(x->first, (size_t)x->cap, sizeof *x->first);
	}
	x->length[x->count] = (int32_t)length;
	x->sequence[x->count] = (uint32_t)sequence;
	x->first[x->count++] = (int32_t)first;
}

static void
release_items(struct items *x)
{
	free(x->length);
	free(x->sequence);
	free(x->first);
}

/* The items of the split, in the order of its sequences. *shorts, *longs: sequences of fewer than 2
 * tokens, which are left out, and of more than a bin. */
static struct items
collect(const struct samples *s, int64_t *shorts, int64_t *longs)
{
	int64_t most = s->seq_length + s->extra;
	struct items x = { 0 };

	*shorts = *longs = 0;
	for (int64_t i = s->begin; i < s->end; i++) {
		int64_t n = dataset_length(s->d, i);

		*shorts += n < 2;
		*longs += n > most;
		if (n <= most || s->long_documents == LONG_TRUNCATE)
			add_item(&x, i, 0, n < most ? n : most);
		else if (s->long_documents == LONG_CUT)
			for (int64_t at = 0; at < n; at += most)
				add_item(&x, i, at, n - at < most ? n - at : most);
	}
	dataset_forget(s->d);
	return x;
}

/* Says what is not taken as it is. */
static void
note_left_out(struct samples *s, int64_t shorts, int64_t longs)
{
	static const char *const what[] = { "cut into pieces", "truncated", "left out" };
	struct str note = { 0 };

	if (shorts == 0 && longs == 0)
		return;
	str_addf(&note, "%s: of the %s split ", dataset_prefix(s->d), split_name[s->which]);
	if (longs)
		str_addf(&note, "%lld sequences of more than %lld tokens are %s", (long long)longs,
		    (long long)(s->seq_length + s->extra), what[s->long_documents]);
	if (shorts)
		str_addf(&note, "%s%lld sequences of fewer than 2 tokens are left out",
		    longs ? ", " : "", (long long)shorts);
	s->note = str_detach(&note);
}

/* The bins of an epoch follow from the lengths alone, so one packing in any order counts them. */
int
samples_plan_bins(struct samples *s, struct err *e)
{
	int64_t shorts, longs, wanted = s->num_samples;
	struct items x = collect(s, &shorts, &longs);
	struct packing p;

	note_left_out(s, shorts, longs);
	s->tokens_per_epoch = 0;
	for (int64_t i = 0; i < x.count; i++)
		s->tokens_per_epoch += x.length[i];
	s->items = x.count;
	s->numbers_items = longs > 0 && s->long_documents == LONG_CUT;
	packing_best_fit(x.length, NULL, x.count, s->seq_length + s->extra, &p);
	s->bins = p.bins;
	packing_release(&p);
	release_items(&x);
	if (s->items == 0)
		return err_at(e, dataset_prefix(s->d), 0,
		    "the %s split has no sequence that --sample-packing best-fit takes",
		    split_name[s->which]);
	if (s->items > INT32_MAX)
		return err_at(e, dataset_prefix(s->d), 0,
		    "%lld pieces of sequences: index maps number at most %d", (long long)s->items,
		    INT32_MAX);
	s->num_epochs = wanted > 0 ? (wanted - 1) / s->bins + 1 : 1;
	if (__builtin_mul_overflow(s->num_epochs, s->items, &s->num_positions))
		return err_set(e, "%lld epochs of %lld sequences: more than 63 bits count",
		    (long long)s->num_epochs, (long long)s->items);
	s->count = s->num_epochs * s->bins;
	return 0;
}

/* Maps under construction. */
struct maps {
	int32_t *document;
	void *row;
	enum dtype row_type;
	void *shuffle;
	enum dtype shuffle_type;
};

static void
set_row(const struct maps *m, int64_t i, int64_t position)
{
	if (m->row_type == DTYPE_I64) {
		((int64_t *)m->row)[2 * i] = position;
		((int64_t *)m->row)[2 * i + 1] = 0;
	} else {
		((int32_t *)m->row)[2 * i] = (int32_t)position;
		((int32_t *)m->row)[2 * i + 1] = 0;
	}
}

/* One epoch: its stretch of each map. */
static void
build_epoch(const struct samples *s, const struct items *x, struct mt19937 *rng, int64_t epoch,
    const struct maps *m)
{
	uint32_t *order = mem_alloc((size_t)(s->items > s->bins ? s->items : s->bins), 4);
	int64_t position = epoch * s->items, bin = epoch * s->bins;
	struct packing p;

	for (int64_t i = 0; i < s->items; i++)
		order[i] = (uint32_t)i;
	samples_shuffle(rng, order, s->items);
	packing_best_fit(x->length, order, s->items, s->seq_length + s->extra, &p);
	if (p.bins != s->bins)
		BUG("%lld bins, not %lld", (long long)p.bins, (long long)s->bins);
	for (int64_t i = 0; i < s->items; i++)
		m->document[position + i] =
		    (int32_t)(s->numbers_items ? p.item[i] : x->sequence[p.item[i]]);
	for (int64_t k = 0; k < p.bins; k++)
		set_row(m, bin + k, position + p.begin[k]);
	packing_release(&p);
	for (int64_t k = 0; k < s->bins; k++)
		order[k] = (uint32_t)k;
	samples_shuffle(rng, order, s->bins);
	for (int64_t k = 0; k < s->bins; k++)
		if (m->shuffle_type == DTYPE_I64)
			((int64_t *)m->shuffle)[bin + k] = bin + order[k];
		else
			((uint32_t *)m->shuffle)[bin + k] = (uint32_t)(bin + order[k]);
	free(order);
}

void
samples_build_bins(struct samples *s)
{
	int64_t shorts, longs;
	struct items x = collect(s, &shorts, &longs);
	struct maps m = { .row_type = samples_row_type(s->num_positions) };
	struct mt19937 rng;

	m.document = index_map_alloc(&s->document, DTYPE_I32, s->num_positions);
	m.row = index_map_alloc(&s->row, m.row_type, 2 * (s->count + 1));
	m.shuffle_type = s->count < (int64_t)UINT32_MAX - 1 ? DTYPE_U32 : DTYPE_I64;
	m.shuffle = index_map_alloc(&s->shuffle, m.shuffle_type, s->count);
	if (s->numbers_items) {
		int64_t *item = index_map_alloc(&s->item, DTYPE_I64, 2 * s->items);

		for (int64_t i = 0; i < s->items; i++) {
			item[2 * i] = x.sequence[i];
			item[2 * i + 1] = x.first[i];
		}
	}
	mt19937_seed(&rng, s->seed);
	for (int64_t epoch = 0; epoch < s->num_epochs; epoch++)
		build_epoch(s, &x, &rng, epoch, &m);
	set_row(&m, s->count, s->num_positions);
	release_items(&x);
}

struct sample_part
samples_packed_part(const struct samples *s, int64_t position)
{
	int64_t item = index_map_get(&s->document, position), most = s->seq_length + s->extra;
	struct sample_part p = { .sequence = item };

	if (s->numbers_items) {
		p.sequence = index_map_get(&s->item, 2 * item);
		p.first = index_map_get(&s->item, 2 * item + 1);
	}
	p.count = dataset_length(s->d, p.sequence) - p.first;
	p.count = p.count < most ? p.count : most;
	return p;
}
