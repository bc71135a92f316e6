/*
 * samples_build.c - building the three index maps of one corpus and one split
 *
 * The order of draws is Megatron-LM's: one newly seeded MT19937 per split, first the document
 * index, then the shuffle index. Source: Megatron-LM core/datasets/gpt_dataset.py,
 * _build_document_sample_shuffle_indices; helpers.cpp, build_sample_idx.
 *
 * A shuffle accesses memory at random, so it spends nearly all of its time waiting. The draws do
 * not depend on the array: they are made a block ahead, and their elements are prefetched while the
 * block before is swapped.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/samples_impl.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { BLOCK = 256, LARGE_PAGE = 2 << 20 };

/* Large pages are only a hint: without them the memory is slower. */
void *
index_map_alloc(struct index_map *m, enum dtype t, int64_t count)
{
	size_t bytes = (size_t)count * dtype_size(t);

	m->dtype = t;
	if (bytes < 2 * LARGE_PAGE) {
		m->own = mem_alloc((size_t)count, dtype_size(t));
	} else {
		uint64_t checked;
		void *p = NULL;

		if (mem_mul((uint64_t)count, dtype_size(t), &checked) < 0 ||
		    posix_memalign(&p, LARGE_PAGE, bytes) != 0)
			p = mem_alloc(
			    (size_t)count, dtype_size(t)); /* reports the size and exits */
		madvise(p, bytes, MADV_HUGEPAGE);
		m->own = p;
	}
	m->data = m->own;
	return m->own;
}

/*
 * Draws the swap partners of elements top, top - 1, ..., at most want of them, while the mask of
 * the rejection stays the same. Every number drawn is stored, and counted only if it is kept: a
 * branch would be mispredicted every other time. Returns their number; out holds one more.
 */
static int
draw_block(struct mt19937 *rng, int64_t top, uint32_t *out)
{
	uint32_t mask = UINT32_MAX >> __builtin_clz((uint32_t)top), last = (uint32_t)top;
	int64_t same = top - (int64_t)(mask >> 1); /* elements with this mask */
	int want = same < BLOCK ? (int)same : BLOCK, got = 0;

	while (got < want) {
		int n;
		const uint32_t *raw = mt19937_take(rng, want - got, &n);

		for (int i = 0; i < n; i++) {
			uint32_t v = raw[i] & mask;

			out[got] = v;
			got += v <= last - (uint32_t)got;
		}
	}
	return got;
}

/* Draws a block and prefetches its elements. */
static int
draw_ahead(struct mt19937 *rng, const uint32_t *a, int64_t top, uint32_t *out)
{
	int n = top > 0 ? draw_block(rng, top, out) : 0;

	for (int i = 0; i < n; i++)
		__builtin_prefetch(a + out[i], 1);
	return n;
}

/*
 * The legacy shuffle of NumPy's RandomState: from the end down, swaps each element with an earlier
 * one or itself. Signed and unsigned 32-bit maps share it.
 */
void
samples_shuffle(struct mt19937 *rng, uint32_t *a, int64_t n)
{
	uint32_t block[2][BLOCK + 1];
	int64_t top = n - 1;
	int which = 0, count;

	for (; top > (int64_t)UINT32_MAX; top--) { /* these are drawn with 64 bits */
		uint64_t j = mt19937_interval(rng, (uint64_t)top);
		uint32_t t = a[top];

		a[top] = a[j];
		a[j] = t;
	}
	count = draw_ahead(rng, a, top, block[0]);
	while (count > 0) {
		const uint32_t *j = block[which];
		int next = draw_ahead(rng, a, top - count, block[which ^ 1]);

		for (int i = 0; i < count; i++, top--) {
			uint32_t t = a[top];

			a[top] = a[j[i]];
			a[j[i]] = t;
		}
		which ^= 1;
		count = next;
	}
}

/* The same for 64-bit elements. */
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

/* The sequences of all epochs, shuffled together, except that a last epoch that is only partly used
 * is shuffled separately. */
static void
build_document_index(struct samples *s, struct mt19937 *rng)
{
	uint32_t *doc = index_map_alloc(&s->document, DTYPE_I32, s->num_positions);
	int64_t per_epoch = s->end - s->begin,
		together = s->num_positions - (s->separate ? per_epoch : 0);

	for (int64_t epoch = 0; epoch < s->num_epochs; epoch++)
		for (int64_t i = 0; i < per_epoch; i++)
			doc[epoch * per_epoch + i] = (uint32_t)(s->begin + i);
	samples_shuffle(rng, doc, together);
	samples_shuffle(rng, doc + together, s->num_positions - together);
}

/* Lengths are 32-bit in the file, so only positions can need more. */
enum dtype
samples_row_type(int64_t num_positions)
{
	return num_positions > INT32_MAX ? DTYPE_I64 : DTYPE_I32;
}

/* The beginning of each sample: rows of position and offset. */
static void
build_sample_index(struct samples *s)
{
	enum dtype t = samples_row_type(s->num_positions);
	void *rows = index_map_alloc(&s->row, t, 2 * (s->count + 1));
	struct row_walk *w = row_walk_new(s);

	for (int64_t i = 0; i <= s->count; i++) {
		int64_t position, offset;

		if (row_walk_next(w, &position, &offset) < 0)
			BUG("%lld samples do not fit the document index", (long long)s->count);
		if (t == DTYPE_I64) {
			((int64_t *)rows)[2 * i] = position;
			((int64_t *)rows)[2 * i + 1] = offset;
		} else {
			((int32_t *)rows)[2 * i] = (int32_t)position;
			((int32_t *)rows)[2 * i + 1] = (int32_t)offset;
		}
	}
	row_walk_free(w);
}

/* The order in which samples are drawn. */
static void
build_shuffle_index(struct samples *s, struct mt19937 *rng)
{
	int64_t first = s->separate ? s->before : s->count;

	if (s->count < (int64_t)UINT32_MAX - 1) {
		uint32_t *a = index_map_alloc(&s->shuffle, DTYPE_U32, s->count);

		for (int64_t i = 0; i < s->count; i++)
			a[i] = (uint32_t)i;
		samples_shuffle(rng, a, first);
		samples_shuffle(rng, a + first, s->count - first);
	} else {
		int64_t *a = index_map_alloc(&s->shuffle, DTYPE_I64, s->count);

		for (int64_t i = 0; i < s->count; i++)
			a[i] = i;
		shuffle64(rng, a, first);
		shuffle64(rng, a + first, s->count - first);
	}
}

/* One generator serves the document index and then the shuffle index; the sample index, which draws
 * nothing, needs the first and comes between them. */
void
samples_build(struct samples *s)
{
	struct mt19937 rng;

	if (s->packing == PACKING_BEST_FIT) {
		samples_build_bins(s);
		return;
	}
	mt19937_seed(&rng, s->seed);
	build_document_index(s, &rng);
	build_sample_index(s);
	build_shuffle_index(s, &rng);
}
