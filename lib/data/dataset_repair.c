/*
 * dataset_repair.c - repairing a damaged pair of .idx and .bin
 *
 * Known damage: offsets that a merge under NumPy 2 summed in 32 bits (Megatron-LM issue 1672);
 * document indices that an old merge did not extend, or did not shift (issue 81); copies that were
 * interrupted or that overwrote a longer file.
 */
#include "lib/base/mem.h"
#include "lib/base/temp_sweep.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/dataset_repair.h"
#include "lib/data/sums.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct dataset_repair {
	struct dataset d;             /* sequences and tokens according to the lengths */
	int64_t *end;                 /* [documents]: where each ends, as a number of sequences */
	int64_t documents, sequences; /* the number that is kept */
	uint64_t bytes;               /* of the .bin, to be kept */
	uint64_t entries;             /* of the document index, present in the file */
	struct dataset mask;          /* its files; lengths are those of d */
	bool has_mask;
};

/* The lengths are taken as they are, because they cannot be derived from anything else. Sets
 * sequences, tokens and the arrays, of which only the lengths are known to lie inside the file. */
static int
read_lengths(struct dataset *d, struct err *e)
{
	uint64_t n = (uint64_t)load64(d->idx.base + 18, 0), body = d->idx.size - DATASET_HEADER,
		 width = dtype_size(d->type), total = 0;

	if (n > body / 4)
		return err_at(e, d->idx_path, 0,
		    "beyond repair: the file ends inside the lengths of its %llu sequences",
		    (unsigned long long)n);
	d->sequences = (int64_t)n;
	d->length = d->idx.base + DATASET_HEADER;
	d->offset = d->length + 4 * n;
	for (int64_t i = 0; i < d->sequences; i++) {
		int32_t len = load32(d->length, i);

		if (len < 0)
			return err_at(e, d->idx_path, 0,
			    "beyond repair: sequence %lld has the negative length %d", (long long)i,
			    (int)len);
		total += (uint64_t)len;
	}
	/* At most body / 4 lengths below 2^31: their sum fits 64 bits, but its bytes may not. */
	if (total > (uint64_t)INT64_MAX / width)
		return err_at(e, d->idx_path, 0,
		    "beyond repair: the lengths add up to more than 63 bits of bytes");
	d->tokens = (int64_t)total;
	return 0;
}

/* Offsets are always recomputed; this only reports whether they change. */
static void
look_at_offsets(const struct dataset *d, struct str *found)
{
	int64_t width = (int64_t)dtype_size(d->type), at = 0, wrong = 0, first = 0;

	if ((uint64_t)d->sequences > (d->idx.size - DATASET_HEADER) / 12) {
		str_adds(
		    found, "the index ended inside its offsets: recomputed from the lengths\n");
		return;
	}
	for (int64_t i = 0; i < d->sequences; i++) {
		if (load64(d->offset, i) != at && wrong++ == 0)
			first = i;
		at += load32(d->length, i) * width;
	}
	if (wrong)
		str_addf(found,
		    "wrong offsets, recomputed from the lengths: %lld of %lld, the first that of "
		    "sequence %lld (%lld)\n",
		    (long long)wrong, (long long)d->sequences, (long long)first,
		    (long long)load64(d->offset, first));
}

/* Counts the entries of the document index in the file, and the bytes after them. */
static void
look_at_end(struct dataset_repair *r, struct str *found)
{
	struct dataset *d = &r->d;
	uint64_t n = (uint64_t)d->sequences, body = d->idx.size - DATASET_HEADER,
		 promised = (uint64_t)load64(d->idx.base + 26, 0), rest;

	rest = n > body / 12 ? 0 : body - 12 * n;
	d->document = d->offset + 8 * n;
	r->entries = promised < rest / 8 ? promised : rest / 8;
	rest -= 8 * r->entries;
	d->modes = r->entries == promised && n > 0 && rest == n;
	if (r->entries == promised && rest && !d->modes)
		str_addf(found, "bytes after the arrays of the index, dropped: %llu\n",
		    (unsigned long long)rest);
	if (r->entries < promised)
		str_addf(found, "the index ended inside its %llu document boundaries\n",
		    (unsigned long long)promised);
}

/* A merge without a shift keeps the boundaries of each part, without its 0: a part begins where
 * they decrease. True when they add up to the sequences. */
static bool
shift_boundaries(struct dataset_repair *r)
{
	const struct dataset *d = &r->d;
	int64_t base = 0, last = 0;

	if (load64(d->document, 0) != 0)
		return false;
	r->end = mem_alloc((size_t)r->entries, sizeof *r->end);
	for (uint64_t i = 1; i < r->entries; i++) {
		int64_t v = load64(d->document, (int64_t)i);

		if (v < last)
			base += last;
		if (v < 0 || v > d->sequences - base)
			return false;
		last = v;
		r->end[i - 1] = base + v;
	}
	r->documents = (int64_t)r->entries - 1;
	return base + last == d->sequences;
}

/* Keeps the first `sound` boundaries, and makes a document of each sequence after them. */
static void
extend_boundaries(struct dataset_repair *r, uint64_t sound)
{
	int64_t kept = sound ? (int64_t)sound - 1 : 0,
		last = sound ? load64(r->d.document, kept) : 0;

	r->documents = kept + r->d.sequences - last;
	r->end = mem_realloc(r->end, (size_t)r->documents, sizeof *r->end);
	for (int64_t k = 0; k < r->documents; k++)
		r->end[k] = k < kept ? load64(r->d.document, k + 1) : last + (k - kept) + 1;
}

/* The document index is kept, completed, shifted, or rebuilt. Boundaries are sound, from the first,
 * while they begin with 0, never decrease and stay within the sequences. */
static void
look_at_documents(struct dataset_repair *r, struct str *found)
{
	const struct dataset *d = &r->d;
	bool from_zero = r->entries && load64(d->document, 0) == 0;
	int64_t last = 0;
	uint64_t sound = 0;

	while (from_zero && sound < r->entries && load64(d->document, (int64_t)sound) >= last &&
	    load64(d->document, (int64_t)sound) <= d->sequences)
		last = load64(d->document, (int64_t)sound++);
	if (sound == r->entries && sound && last == d->sequences) {
		extend_boundaries(r, sound);
	} else if (sound == r->entries && sound) {
		extend_boundaries(r, sound);
		str_addf(found,
		    "the document index covered %lld of %lld sequences; each of the others became "
		    "a "
		    "document\n",
		    (long long)last, (long long)d->sequences);
	} else if (r->entries && shift_boundaries(r)) {
		str_adds(found, "the document index was not shifted in a merge: shifted\n");
	} else {
		extend_boundaries(r, 0);
		str_adds(
		    found, "the document index was invalid: each sequence became a document\n");
	}
}

/* Keeps of the .bin what the lengths add up to or, where it is shorter, the complete documents. */
static int
look_at_bin(struct dataset_repair *r, struct str *found, struct err *e)
{
	const struct dataset *d = &r->d;
	uint64_t width = dtype_size(d->type), want = (uint64_t)d->tokens * width, at = 0;
	int64_t whole = 0, documents = r->documents;

	while (
	    whole < d->sequences && at + (uint64_t)load32(d->length, whole) * width <= d->bin_bytes)
		at += (uint64_t)load32(d->length, whole++) * width;
	while (r->documents > 0 && r->end[r->documents - 1] > whole)
		r->documents--;
	r->sequences = r->documents ? r->end[r->documents - 1] : 0;
	while (whole > r->sequences)
		at -= (uint64_t)load32(d->length, --whole) * width;
	r->bytes = at;
	if (d->bin_bytes > want)
		str_addf(found, "bytes of the .bin after its last sequence, dropped: %llu\n",
		    (unsigned long long)(d->bin_bytes - want));
	if (d->bin_bytes >= want)
		return 0;
	if (r->sequences == 0)
		return err_at(e, d->bin_path, 0, "beyond repair: it has no complete document");
	str_addf(found,
	    "the .bin ended %llu bytes too early; dropped from the end: documents %lld, sequences "
	    "%lld, tokens %lld\n",
	    (unsigned long long)(want - d->bin_bytes), (long long)(documents - r->documents),
	    (long long)(d->sequences - r->sequences),
	    (long long)((uint64_t)d->tokens - r->bytes / width));
	return 0;
}

/* A mask is cut like its tokens, so it must have the same lengths, and the bytes that are kept. */
static int
look_at_mask(struct dataset_repair *r, struct err *e)
{
	struct dataset *d = &r->d, *m = &r->mask;
	int64_t tokens = (int64_t)(r->bytes / dtype_size(d->type));
	char *prefix;
	int rc = dataset_find_mask(d, &prefix, e);

	if (rc == 0 && prefix) {
		r->has_mask = true;
		rc = dataset_open_files(m, prefix, true, e);
		if (rc == 0)
			rc = dataset_check_head(m, e);
		if (rc == 0)
			rc = read_lengths(m, e);
		if (rc == 0 &&
		    (m->type != DTYPE_U8 || m->sequences != d->sequences ||
			memcmp(m->length, d->length, 4 * (size_t)d->sequences) != 0 ||
			(int64_t)m->bin_bytes < tokens))
			rc = err_at(e, m->idx_path, 0,
			    "beyond repair: it is no mask of the %lld tokens that are kept",
			    (long long)tokens);
	}
	free(prefix);
	return rc;
}

/* Each step relies on those before it. Modes belong to sequences, and the writer has none. */
struct dataset_repair *
dataset_repair_open(const char *prefix, struct str *found, struct err *e)
{
	struct dataset_repair *r = mem_zalloc(1, sizeof *r);
	int rc = dataset_open_files(&r->d, prefix, true, e);

	if (rc == 0)
		rc = dataset_check_head(&r->d, e);
	if (rc == 0)
		rc = read_lengths(&r->d, e);
	if (rc == 0) {
		look_at_offsets(&r->d, found);
		look_at_end(r, found);
		look_at_documents(r, found);
		rc = look_at_bin(r, found, e);
	}
	if (rc == 0 && found->len && r->d.modes)
		rc = err_at(e, r->d.idx_path, 0,
		    "beyond repair: it has modes (multimodal data), which would be lost");
	if (rc == 0 && found->len)
		rc = look_at_mask(r, e);
	if (rc < 0) {
		dataset_repair_close(r);
		r = NULL;
	}
	return r;
}

/* Truncates the .bin in place, after its index is replaced, unless another program has replaced
 * both meanwhile. The notes about the old bytes are wrong then. */
static int
cut_bin(const struct dataset *d, uint64_t bytes, struct lock *lock, struct err *e)
{
	char *sums = dataset_path(d->prefix, ".xxh");
	int fd = open(d->bin_path, O_WRONLY | O_CLOEXEC), rc;

	rc = fd < 0 ? err_sys(e, "open", d->bin_path) : lock_check(lock, e);
	if (rc == 0 && d->bin_bytes > bytes && (ftruncate(fd, (off_t)bytes) < 0 || fsync(fd) < 0))
		rc = err_sys(e, "cut", d->bin_path);
	if (fd >= 0)
		close(fd);
	if (lock_unlink(lock, sums, rc == 0 ? e : NULL) < 0)
		rc = -1;
	free(sums);
	return rc < 0 ? -1 : sums_cut(d->prefix, bytes, lock, e);
}

bool
dataset_repair_has_mask(const struct dataset_repair *r)
{
	return r->has_mask;
}

/* All that is kept of the tokens, or of the mask. */
static int
write_kept(const struct dataset_repair *r, struct dataset_writer *w, const struct dataset *d,
    struct err *e)
{
	uint64_t bytes = r->bytes / dtype_size(r->d.type) * dtype_size(d->type);

	if (dataset_write_lengths(w, d->length, r->sequences, e) < 0 ||
	    dataset_write_boundaries(w, r->end, r->documents, e) < 0)
		return -1;
	return w->bin.f ? dataset_write_bin(w, d, 0, bytes, e) : 0;
}

/* A new dataset, or a new index over the old tokens. */
int
dataset_repair_save(struct dataset_repair *r, const struct repair_target *to, struct err *e)
{
	const char *output = to->output;
	struct dataset *d = &r->d;
	struct dataset_writer *w;

	temp_sweep_beside(output ? output : d->prefix);
	w = output ? dataset_writer_new(output, d->type, e)
		   : dataset_writer_index(d->prefix, d->type, e);
	if (!w)
		return -1;
	if (write_kept(r, w, d, e) < 0 ||
	    (output && r->has_mask &&
		(dataset_writer_add_mask(w, to->lock, e) < 0 ||
		    write_kept(r, w->mask, &r->mask, e) < 0))) {
		dataset_abort(w);
		return -1;
	}
	dataset_writer_guard(w, to->lock, to->replace);
	if (to->notes)
		dataset_writer_describe(w, to->notes);
	if (dataset_commit(w, e) < 0)
		return -1;
	return output ? 0 : cut_bin(d, r->bytes, to->lock, e);
}

/* Counts what is kept: every kept token is in a sequence. */
struct dataset_counts
dataset_repair_counts(const struct dataset_repair *r)
{
	return (struct dataset_counts){ r->documents, r->sequences,
		r->bytes / (int64_t)dtype_size(r->d.type) };
}

/* Before the repair. */
int64_t
dataset_repair_bin_bytes(const struct dataset_repair *r)
{
	return (int64_t)r->d.bin_bytes;
}

/* Also frees a partly opened one; NULL is allowed. */
void
dataset_repair_close(struct dataset_repair *r)
{
	if (!r)
		return;
	dataset_close_files(&r->d);
	if (r->has_mask)
		dataset_close_files(&r->mask);
	free(r->end);
	free(r);
}
