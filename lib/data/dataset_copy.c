/*
 * dataset_copy.c - documents from an open dataset to a new one
 *
 * Tokens of the same type are copied as they are stored, and others are converted. Lengths and
 * boundaries are copied in blocks, so memory does not grow with either dataset, and the offsets are
 * recomputed in 64 bits, so that no error in the old ones survives.
 */
#include "lib/data/dataset_impl.h"

#include <errno.h>

/* The reason of a failed copy, from errno. */
static int
copy_failed(const struct dataset_writer *w, const struct dataset *d, struct err *e)
{
	return err_set(e, "cannot copy tokens of '%s' to '%s': %s", d->bin_path, w->bin.path,
	    errno == EIO ? "the file ends too early or a disk failed" : strerror(errno));
}

/* Through the program's memory: the checksums of the copy are those of what was read. */
int
dataset_write_bin(
    struct dataset_writer *w, const struct dataset *d, uint64_t at, uint64_t bytes, struct err *e)
{
	int rc = d->bin_fd < 0 ? dataset_put(w, d->bin.base + at, (size_t)bytes)
			       : dataset_put_from(w, d->bin_fd, at, bytes);

	return rc < 0 ? copy_failed(w, d, e) : 0;
}

/* Copies tokens [first, end) of the .bin through 64-bit ids. The writer checks that each fits. */
static int
convert(
    struct dataset_writer *w, const struct dataset *d, int64_t first, int64_t end, struct err *e)
{
	int64_t width = (int64_t)dtype_size(d->type), ids[DATASET_CHUNK];
	unsigned char room[8 * DATASET_CHUNK];

	for (int64_t n; first < end; first += n) {
		const void *stored;

		n = end - first < DATASET_CHUNK ? end - first : DATASET_CHUNK;
		stored = dataset_bytes(d, (uint64_t)(first * width), (size_t)(n * width), room, e);
		if (!stored)
			return -1;
		dataset_widen(d->type, stored, n, ids);
		if (dataset_write_ids(w, ids, (size_t)n, e) < 0)
			return -1;
	}
	return 0;
}

/* Copies the ends of the documents [begin, end), renumbered for the new dataset, whose last
 * sequences are already theirs. */
static int
add_boundaries(
    struct dataset_writer *w, const struct dataset *d, int64_t begin, int64_t end, struct err *e)
{
	int64_t ends[DATASET_CHUNK], shift = w->sequences - dataset_document_start(d, end);

	for (int64_t k = begin, n; k < end; k += n) {
		n = end - k < DATASET_CHUNK ? end - k : DATASET_CHUNK;
		for (int64_t i = 0; i < n; i++)
			ends[i] = dataset_document_start(d, k + i + 1) + shift;
		if (dataset_write_boundaries(w, ends, n, e) < 0)
			return -1;
	}
	return 0;
}

/* Copies the modes of the sequences [s0, s1), the last ones of the writer. A dataset has modes for
 * all its sequences or for none. */
static int
add_modes(struct dataset_writer *w, const struct dataset *d, int64_t s0, int64_t s1, struct err *e)
{
	const unsigned char *modes = d->document + 8 * (d->documents + 1);
	int64_t before = w->sequences - (s1 - s0);

	if (s0 == s1)
		return 0;
	if (before > 0 && d->modes != (w->modes != NULL))
		return err_at(e, d->prefix, 0,
		    d->modes
			? "has modes (multimodal data), but the datasets before it have none"
			: "has no modes (multimodal data), but the datasets before it have them");
	if (d->modes && !w->modes && !(w->modes = dataset_spill(w->prefix, e)))
		return -1;
	if (d->modes && fwrite(modes + s0, 1, (size_t)(s1 - s0), w->modes) != (size_t)(s1 - s0))
		return err_sys(e, "write", w->prefix);
	return 0;
}

/* Tokens that all count, of documents that are as in d. */
static int
add_ones(
    struct dataset_writer *w, const struct dataset *d, int64_t begin, int64_t end, struct err *e)
{
	int64_t s0 = dataset_document_start(d, begin), s1 = dataset_document_start(d, end),
		left = dataset_sequence_start(d, s1) - dataset_sequence_start(d, s0);
	char ones[DATASET_CHUNK];

	memset(ones, 1, sizeof ones);
	if (dataset_write_lengths(w, d->length + 4 * s0, s1 - s0, e) < 0 ||
	    add_boundaries(w, d, begin, end, e) < 0)
		return -1;
	for (int64_t n; left > 0; left -= n) {
		n = left < DATASET_CHUNK ? left : DATASET_CHUNK;
		if (dataset_put(w, ones, (size_t)n) < 0)
			return err_sys(e, "write", w->prefix);
	}
	return 0;
}

/* Adjacent documents are adjacent sequences, which are one range of the .bin. */
int
dataset_add_documents(
    struct dataset_writer *w, const struct dataset *d, int64_t begin, int64_t end, struct err *e)
{
	int64_t s0 = dataset_document_start(d, begin), s1 = dataset_document_start(d, end),
		t0 = dataset_sequence_start(d, s0), t1 = dataset_sequence_start(d, s1),
		width = (int64_t)dtype_size(d->type);

	if (w->mask &&
	    (d->mask ? dataset_add_documents(w->mask, d->mask, begin, end, e)
		     : add_ones(w->mask, d, begin, end, e)) < 0)
		return -1;
	if (dataset_write_lengths(w, d->length + 4 * s0, s1 - s0, e) < 0 ||
	    add_modes(w, d, s0, s1, e) < 0 || add_boundaries(w, d, begin, end, e) < 0)
		return -1;
	if (w->type == d->type)
		return dataset_write_bin(
		    w, d, (uint64_t)(t0 * width), (uint64_t)((t1 - t0) * width), e);
	return convert(w, d, t0, t1, e);
}
