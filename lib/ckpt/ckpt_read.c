/*
 * ckpt_read.c - reads boxes from pieces, and verifies their checksums
 *
 * A read intersects boxes and copies out of a mapped file, whatever the reader's layout. It works
 * by blocks: a block is compared with its checksum when the first of its bytes are read, large
 * blocks in a second thread, while the first one copies and waits for the disk. What lies in a file
 * as it is wanted can be lent, without a copy.
 */
#include "lib/base/hash.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* From this size on a block is worth handing to the second thread. */
enum { BACKGROUND_BYTES = 1 << 18 };

/*
 * The bytes of one file, mapped on first use and kept mapped; NULL with a reason. If its size has
 * changed since opening, something writes to the checkpoint and no offset can be trusted.
 */
static const unsigned char *
file_bytes(struct ckpt *c, int file, struct err *e)
{
	struct map *m = &c->map[file];
	uint64_t size = m->size;
	char path[CKPT_PATH_BYTES];

	if (m->base)
		return m->base;
	ckpt_join(path, c->dir, c->m.file[file]);
	if (map_open(m, path, e) < 0) {
		m->size = size;
		return NULL;
	}
	if (m->size != size) {
		map_close(m);
		m->size = size;
		c->damaged = true;
		err_set(e, "%s: its size changed while the checkpoint was open", path);
		return NULL;
	}
	map_small_pages(m);
	return m->base;
}

/* One piece's part of a read. */
struct part {
	const struct ckpt_tensor *tensor;
	const struct ckpt_piece *piece;
	void *dst;
	const unsigned char *src; /* where the piece begins */
	const struct slice *dst_box;
};

/* Checksum number i of a piece covers bytes [*at, *at + *bytes). */
static void
block_range(const struct ckpt_piece *p, int64_t i, uint64_t *at, uint64_t *bytes)
{
	*at = (uint64_t)i * CKPT_BLOCK_BYTES;
	*bytes = p->bytes - *at;
	if (p->num_sums > 1 && *bytes > CKPT_BLOCK_BYTES)
		*bytes = CKPT_BLOCK_BYTES;
}

/* Returns -1. */
static int
damage(struct ckpt *c, const struct ckpt_tensor *t, const struct ckpt_piece *p, struct err *e)
{
	c->damaged = true;
	return err_set(e, "%s/%s: the bytes of tensor '%s' are damaged: wrong checksum", c->dir,
	    c->m.file[p->file], t->name);
}

/* Compares one block of a piece with its checksum, unless that is done; data is the start of the
 * piece. */
static int
check_block(struct ckpt *c, const struct ckpt_tensor *t, const struct ckpt_piece *p, int64_t i,
    const unsigned char *data, struct err *e)
{
	bool *checked = &c->checked[p->sum + i - c->m.sum];
	uint64_t at, bytes;

	block_range(p, i, &at, &bytes);
	if (!*checked && hash_xxh3(data + at, bytes) != p->sum[i])
		return damage(c, t, p, e);
	*checked = true;
	return 0;
}

/* Queues a block of a piece for comparison in the background, unless that is done; settle gets the
 * result. */
static void
queue_check(struct ckpt *c, const struct ckpt_piece *p, int64_t i, const unsigned char *data)
{
	int sum = (int)(p->sum + i - c->m.sum);
	struct check_block b = { .sum = p->sum[i], .tag = sum };
	uint64_t at;

	if (c->checked[sum])
		return;
	if (!c->checker)
		c->checker = checker_new();
	block_range(p, i, &at, &b.bytes);
	b.data = data + at;
	c->checked[sum] = true;
	checker_add(c->checker, &b);
}

/* Waits for the queued blocks of a tensor, even if the read has failed with rc. -1 when one was
 * damaged: others may be, so all blocks of the tensor are marked for another comparison. */
static int
settle(struct ckpt *c, const struct ckpt_tensor *t, int rc, struct err *e)
{
	const struct ckpt_piece *bad = t->piece;
	int wrong;

	if (!c->checker || checker_wait(c->checker, &wrong))
		return rc;
	for (const struct ckpt_piece *p = t->piece; p < t->piece + t->num_pieces; p++) {
		int64_t first = p->sum - c->m.sum;

		memset(c->checked + first, false, (size_t)p->num_sums);
		if (wrong >= first && wrong < first + p->num_sums)
			bad = p;
	}
	return rc < 0 ? rc : damage(c, t, bad, e);
}

/* Checks the block and copies the part of `common` that lies in it, if any. */
static int
read_block(struct ckpt *c, struct part *part, int64_t i, const struct slice *common, struct err *e)
{
	const struct ckpt_piece *p = part->piece;
	uint64_t at, bytes, size = dtype_size(part->tensor->dtype);
	struct slice run[SLICE_FLAT_MAX], both;
	bool any = false;
	int n;

	block_range(p, i, &at, &bytes);
	n = slice_flat(&p->slice, (int64_t)(at / size), (int64_t)(bytes / size), run);
	for (int k = 0; k < n; k++) {
		if (!slice_intersect(&run[k], common, &both))
			continue;
		any = true;
		slice_copy(part->dst, part->dst_box, part->src, &p->slice, &both, size);
	}
	if (any && bytes >= BACKGROUND_BYTES)
		queue_check(c, p, i, part->src);
	else if (any)
		return check_block(c, part->tensor, p, i, part->src, e);
	return 0;
}

/* The blocks of a mapped piece that hold a part of the box. */
static const unsigned char *
blocks_of(const struct ckpt *c, const struct ckpt_tensor *t, const struct ckpt_piece *p,
    const struct slice *common, uint64_t *bytes)
{
	const uint64_t block = CKPT_BLOCK_BYTES, size = dtype_size(t->dtype);
	int64_t first, n = slice_span(common, &p->slice, &first);
	uint64_t from = (uint64_t)first * size / block * block,
		 to = ((uint64_t)(first + n) * size + block - 1) / block * block;

	if (p->num_sums == 1)
		from = 0;
	if (p->num_sums == 1 || to > p->bytes)
		to = p->bytes;
	*bytes = to - from;
	return c->map[p->file].base + p->offset + from;
}

/*
 * Pieces tile the tensor, and blocks a piece, so copying each block's overlap with the box writes
 * every element of dst once. The bytes are read through the map; memory is dst.
 */
static int
read_pieces(
    struct ckpt *c, const struct ckpt_tensor *t, const struct slice *want, void *dst, struct err *e)
{
	for (int i = 0; i < t->num_pieces; i++) {
		const struct ckpt_piece *p = &t->piece[i];
		const unsigned char *bytes, *first;
		struct part part = { t, p, dst, NULL, want };
		struct slice common;
		uint64_t len;

		if (!slice_intersect(want, &p->slice, &common))
			continue;
		bytes = file_bytes(c, p->file, e);
		if (!bytes)
			return -1;
		part.src = bytes + p->offset;
		first = blocks_of(c, t, p, &common, &len);
		map_will_need(first, len);
		for (int64_t k = 0; k < p->num_sums; k++)
			if (read_block(c, &part, k, &common, e) < 0)
				return -1;
	}
	return 0;
}

/*
 * The request must lie in the tensor. Violations come from users (a wrong model, a wrong layout),
 * so they are errors, not bugs. Damage is reported after everything has been copied; dst is then
 * invalid. What was read does not stay in this process's memory: as much of a file as is mapped
 * would.
 */
int
ckpt_read(struct ckpt *c, const char *name, const struct slice *want, void *dst, struct err *e)
{
	const struct ckpt_tensor *t = ckpt_find(c, name);
	struct slice common;
	int rc;

	if (!t)
		return err_at(e, c->dir, 0, "no tensor '%s'", name);
	if (want->ndim != t->ndim)
		return err_at(e, c->dir, 0, "tensor '%s' has %d dimensions, not %d", name, t->ndim,
		    want->ndim);
	if (!slice_inside(want, t->ndim, t->shape)) {
		struct str s = { 0 };

		manifest_print_list(&s, t->ndim, t->shape);
		err_at(e, c->dir, 0, "tensor '%s' of shape %s does not contain the requested part",
		    name, s.buf);
		str_release(&s);
		return -1;
	}
	rc = settle(c, t, read_pieces(c, t, want, dst, e), e);
	for (int i = 0; i < t->num_pieces; i++) {
		const struct map *m = &c->map[t->piece[i].file];
		uint64_t len;

		if (m->base && slice_intersect(want, &t->piece[i].slice, &common)) {
			const void *first = blocks_of(c, t, &t->piece[i], &common, &len);

			map_forget_read(m, first, len);
		}
	}
	return rc;
}

/* The piece in which a box of a tensor is dense; NULL: there is none, or one whose checksum is of
 * so much that comparing it would map more than blocks. */
static const struct ckpt_piece *
find_dense(const struct ckpt_tensor *t, const struct slice *want)
{
	int64_t n = slice_elements(want), first;
	struct slice common;

	for (int i = 0; i < t->num_pieces; i++) {
		const struct ckpt_piece *p = &t->piece[i];

		if (slice_intersect(want, &p->slice, &common))
			return slice_elements(&common) == n &&
				slice_span(want, &p->slice, &first) == n &&
				(p->num_sums > 1 || p->bytes <= CKPT_BLOCK_BYTES)
			    ? p
			    : NULL;
	}
	return NULL;
}

/* Where a box begins in a mapped piece in which it is dense, and its bytes. */
static const unsigned char *
dense_bytes(const struct ckpt *c, const struct ckpt_tensor *t, const struct ckpt_piece *p,
    const struct slice *box, uint64_t *bytes)
{
	uint64_t size = dtype_size(t->dtype);
	int64_t first, n = slice_span(box, &p->slice, &first);

	*bytes = (uint64_t)n * size;
	return c->map[p->file].base + p->offset + (uint64_t)first * size;
}

/* Blocks are compared by this thread: a caller with many boxes has threads of its own. What else
 * lies in the blocks does not stay in this process's memory. */
int
ckpt_lend(
    struct ckpt *c, const char *name, const struct slice *want, const void **at, struct err *e)
{
	const struct ckpt_tensor *t = ckpt_find(c, name);
	const struct ckpt_piece *p = t ? find_dense(t, want) : NULL;
	const unsigned char *data, *first, *box;
	uint64_t len, bytes;

	*at = NULL;
	if (!p)
		return 0;
	data = file_bytes(c, p->file, e);
	if (!data)
		return -1;
	data += p->offset;
	first = blocks_of(c, t, p, want, &len);
	box = dense_bytes(c, t, p, want, &bytes);
	map_will_need(first, len);
	for (uint64_t i = (uint64_t)(first - data) / CKPT_BLOCK_BYTES;
	     data + i * CKPT_BLOCK_BYTES < first + len; i++)
		if (check_block(c, t, p, (int64_t)i, data, e) < 0)
			return -1;
	map_keep(first, len, box, bytes);
	*at = box;
	return 0;
}

void
ckpt_give_back(struct ckpt *c, const char *name, const struct slice *want)
{
	const struct ckpt_tensor *t = ckpt_find(c, name);
	const struct ckpt_piece *p = find_dense(t, want);
	uint64_t bytes;
	const unsigned char *box = dense_bytes(c, t, p, want, &bytes);

	map_forget_read(&c->map[p->file], box, bytes);
}

void
ckpt_expect(struct ckpt *c, const char *name, const struct slice *want)
{
	const struct ckpt_tensor *t = ckpt_find(c, name);
	struct slice common;
	uint64_t len;

	for (int i = 0; t && i < t->num_pieces; i++) {
		const struct ckpt_piece *p = &t->piece[i];

		if (slice_intersect(want, &p->slice, &common) && file_bytes(c, p->file, NULL)) {
			const void *first = blocks_of(c, t, p, &common, &len);

			map_will_need(first, len);
		}
	}
}

/* Pieces are dealt to the ranks in the order of the files, so that each rank reads few files. */
int
ckpt_check_share(struct ckpt *c, int rank, int num_ranks, struct err *e)
{
	int turn = 0;

	for (int i = 0; i < c->m.num_pieces; i++) {
		const struct ckpt_tensor *t = &c->m.tensor[c->m.place[i].tensor];
		const struct ckpt_piece *p = &t->piece[c->m.place[i].piece];
		const unsigned char *bytes;

		if (p->num_sums > 1 || p->bytes <= CKPT_BLOCK_BYTES)
			continue;
		c->checked[p->sum - c->m.sum] = turn % num_ranks != rank;
		if (turn++ % num_ranks != rank)
			continue;
		bytes = file_bytes(c, p->file, e);
		if (!bytes || check_block(c, t, p, 0, bytes + p->offset, e) < 0)
			return -1;
	}
	return 0;
}

bool
ckpt_damaged(const struct ckpt *c)
{
	return c->damaged;
}

/*
 * The entry of a pieces file that is the manifest's piece, or NULL when the two disagree about
 * place, type or shape. Names are TENSOR@START, as written by ckpt_declare.
 */
static const struct safetensors_entry *
find_entry(const struct safetensors *s, const struct ckpt_tensor *t, const struct ckpt_piece *p)
{
	struct str name = { 0 };
	const struct safetensors_entry *entry;

	str_addf(&name, "%s@", t->name);
	manifest_print_list(&name, t->ndim, p->slice.start);
	entry = safetensors_find(s, name.buf);
	str_release(&name);
	if (!entry || entry->offset != p->offset || entry->dtype != t->dtype ||
	    entry->ndim != t->ndim)
		return NULL;
	return memcmp(entry->shape, p->slice.count, (size_t)t->ndim * sizeof *entry->shape) ? NULL
											    : entry;
}

/*
 * Compares the pieces of the file with its header and their bytes with the checksums: each block is
 * read ahead, and its memory is given back. Last the counts, to find a tensor that the manifest
 * does not have.
 */
static int
verify_pieces(struct ckpt *c, int file, const struct safetensors *s, struct err *e)
{
	int first = c->m.first[file], end = c->m.first[file + 1], rc = 0;

	for (int i = first; i < end; i++) {
		const struct ckpt_tensor *t = &c->m.tensor[c->m.place[i].tensor];
		const struct ckpt_piece *p = &t->piece[c->m.place[i].piece];
		const struct safetensors_entry *entry = find_entry(s, t, p);

		if (!entry)
			return err_set(e,
			    "%s/%s: its header disagrees with the manifest about tensor '%s'",
			    c->dir, c->m.file[file], t->name);
		for (int64_t k = 0; k < p->num_sums && rc == 0; k++) {
			const unsigned char *data = entry->data;
			uint64_t at, bytes;

			if (c->checked[p->sum + k - c->m.sum])
				continue;
			block_range(p, k, &at, &bytes);
			map_will_need(data + at, bytes);
			rc = check_block(c, t, p, k, data, e);
			map_forget_part(data + at, bytes);
		}
		if (rc < 0)
			return -1;
	}
	if (safetensors_count(s) != end - first)
		return err_set(e, "%s/%s: holds %d tensors, the manifest names %d", c->dir,
		    c->m.file[file], safetensors_count(s), end - first);
	return 0;
}

/*
 * Three witnesses must agree: the header of the file, the manifest, and the bytes. Opening the file
 * checks the header by itself, including that nothing follows the last tensor.
 */
int
ckpt_verify_file(struct ckpt *c, int file, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	struct safetensors *s;
	int rc;

	ckpt_join(path, c->dir, c->m.file[file]);
	s = safetensors_open(path, e);
	if (!s)
		return -1;
	rc = verify_pieces(c, file, s, e);
	safetensors_close(s);
	return rc;
}
