/*
 * dataset_check.c - the rules that a .idx and a .bin must keep
 *
 * Megatron-LM checks magic, version, type, that the arrays fit and the last document boundary;
 * everything else reaches training. Here every entry is checked. So that this does not slow the
 * start, the first pass has no branch and no sum carried from entry to entry and runs at memory
 * speed; only a file that fails it is read again, for the position and the message. Checked pages
 * are released, so that a large index does not count as memory.
 */
#include "lib/data/dataset_impl.h"

static const char magic[9] = "MMIDIDX\0";
static const char old_magic[8] = "TNTIDX\0";

/* Type codes of the index; 6 and 7 are the floating types, which hold no tokens. */
static const enum dtype type_of_code[] = {
	DTYPE_NONE,
	DTYPE_U8,
	DTYPE_I8,
	DTYPE_I16,
	DTYPE_I32,
	DTYPE_I64,
	DTYPE_F64,
	DTYPE_F32,
	DTYPE_U16,
};

/* Magic, version and type. */
int
dataset_check_head(struct dataset *d, struct err *e)
{
	const unsigned char *p = d->idx.base;
	uint64_t size = d->idx.size;
	unsigned type;

	if (size >= sizeof old_magic && !memcmp(p, old_magic, sizeof old_magic))
		return err_at(
		    e, d->idx_path, 0, "the obsolete TNTIDX layout; only MMIDIDX is read");
	if (size < sizeof magic || memcmp(p, magic, sizeof magic))
		return err_at(
		    e, d->idx_path, 0, "not a dataset index: it does not begin with MMIDIDX");
	if (size < DATASET_HEADER)
		return err_at(e, d->idx_path, 0,
		    "the file ends inside its header: %llu bytes of %d", (unsigned long long)size,
		    DATASET_HEADER);
	if (load64(p + 9, 0) != 1)
		return err_at(e, d->idx_path, 0, "version %llu; only version 1 is known",
		    (unsigned long long)load64(p + 9, 0));
	type = p[17];
	if (type == 0 || type >= sizeof type_of_code / sizeof *type_of_code)
		return err_at(e, d->idx_path, 0, "unknown token type code %u", type);
	d->type = type_of_code[type];
	if (dtype_is_float(d->type))
		return err_at(e, d->idx_path, 0, "token type code %u is %s; tokens are integers",
		    type, dtype_torch_name(d->type));
	return 0;
}

/* The counts against the size of the file; sets the array pointers. */
int
dataset_check_arrays(struct dataset *d, struct err *e)
{
	const unsigned char *p = d->idx.base;
	uint64_t n = (uint64_t)load64(p + 18, 0), docs = (uint64_t)load64(p + 26, 0),
		 body = d->idx.size - DATASET_HEADER, need;

	if (docs == 0)
		return err_at(
		    e, d->idx_path, 0, "the document index is empty; it must hold at least its 0");
	/* After these two bounds nothing below can overflow. */
	if (n > body / 12 || docs > body / 8 || n * 12 + docs * 8 > body)
		return err_at(e, d->idx_path, 0,
		    "the file ends inside its arrays: %llu sequences and %llu document boundaries "
		    "do not "
		    "fit %llu bytes",
		    (unsigned long long)n, (unsigned long long)docs,
		    (unsigned long long)d->idx.size);
	need = n * 12 + docs * 8;
	d->modes = n > 0 && body - need == n;
	if (body != need && !d->modes)
		return err_at(e, d->idx_path, 0,
		    "%llu bytes follow the arrays; only %llu modes could",
		    (unsigned long long)(body - need), (unsigned long long)n);
	d->sequences = (int64_t)n;
	d->documents = (int64_t)docs - 1;
	d->length = p + DATASET_HEADER;
	d->offset = d->length + 4 * n;
	d->document = d->offset + 8 * n;
	return 0;
}

/* Checks that each of the sequences [first, end) is followed by the next: a result other than 0, or
 * above 63 bits, is a fault. */
static uint64_t
sequence_faults(const struct dataset *d, int64_t first, int64_t end, unsigned shift)
{
	const unsigned char *length = d->length, *offset = d->offset;
	uint64_t differ = 0, sign = 0;

	for (int64_t i = first; i < end; i++) {
		uint64_t len = (uint64_t)(int64_t)load32(length, i),
			 at = (uint64_t)load64(offset, i), next = (uint64_t)load64(offset, i + 1);

		differ |= (next - at) ^ (len << shift);
		sign |= len | next;
	}
	return differ | sign >> 63;
}

/*
 * The first sequence begins at 0 and each next one where the one before it ends. Lengths add less
 * than 2^34 bytes each, so a sum that exceeds 63 bits shows as a negative offset on the way.
 */
static bool
sequences_sound(const struct dataset *d, unsigned shift)
{
	int64_t last = d->sequences - 1;
	uint64_t fault, len;

	if (d->sequences == 0)
		return true;
	fault = (uint64_t)load64(d->offset, 0);
	for (int64_t i = 0; i < last; i += DATASET_FORGET) {
		fault |= sequence_faults(
		    d, i, last - i < DATASET_FORGET ? last : i + DATASET_FORGET, shift);
		map_forget(&d->idx);
	}
	len = (uint64_t)(int64_t)load32(d->length, last);
	return fault == 0 &&
	    (len | ((uint64_t)load64(d->offset, last) + (len << shift))) >> 63 == 0;
}

/* The message about the first sequence that breaks the rules. */
static int
sequences_fault(const struct dataset *d, uint64_t width, struct err *e)
{
	uint64_t at = 0;

	for (int64_t i = 0; i < d->sequences; i++) {
		int32_t len = load32(d->length, i);

		if (len < 0)
			return err_at(e, d->idx_path, 0, "sequence %lld has the negative length %d",
			    (long long)i, (int)len);
		if ((uint64_t)load64(d->offset, i) != at)
			return err_at(e, d->idx_path, 0,
			    "sequence %lld starts at byte %lld, but the lengths before it add up "
			    "to %llu",
			    (long long)i, (long long)load64(d->offset, i), (unsigned long long)at);
		if (at > (uint64_t)INT64_MAX - (uint64_t)len * width)
			return err_at(
			    e, d->idx_path, 0, "the lengths add up to more than 63 bits of bytes");
		at += (uint64_t)len * width;
	}
	BUG("%s fails the fast check of its sequences and passes the slow one", d->idx_path);
}

/* Lengths must not be negative, and offsets must be their running sum. */
int
dataset_check_sequences(struct dataset *d, struct err *e)
{
	uint64_t width = dtype_size(d->type);
	int64_t last = d->sequences - 1;

	if (!sequences_sound(d, (unsigned)__builtin_ctzll(width)))
		return sequences_fault(d, width, e);
	if (last >= 0)
		d->tokens = load64(d->offset, last) / (int64_t)width + load32(d->length, last);
	return 0;
}

/* True when no boundary is negative or less than the one before it, and the first and the last are
 * right. */
static bool
documents_sound(const struct dataset *d)
{
	const unsigned char *p = d->document;
	uint64_t sign = 0;

	for (int64_t k = 0; k < d->documents; k += DATASET_FORGET) {
		int64_t end = d->documents - k < DATASET_FORGET ? d->documents : k + DATASET_FORGET;

		for (int64_t i = k; i < end; i++) {
			uint64_t v = (uint64_t)load64(p, i), next = (uint64_t)load64(p, i + 1);

			sign |= next | (next - v);
		}
		map_forget(&d->idx);
	}
	return load64(p, 0) == 0 && load64(p, d->documents) == d->sequences && sign >> 63 == 0;
}

/* The document index must begin with 0, never decrease and end with the number of sequences. */
int
dataset_check_documents(const struct dataset *d, struct err *e)
{
	int64_t last = 0;

	if (documents_sound(d))
		return 0;
	if (load64(d->document, 0) != 0)
		return err_at(e, d->idx_path, 0, "the document index begins with %lld, not 0",
		    (long long)load64(d->document, 0));
	for (int64_t i = 1; i <= d->documents; i++) {
		int64_t v = load64(d->document, i);

		if (v < last)
			return err_at(e, d->idx_path, 0,
			    "the document index decreases from %lld to %lld at entry %lld",
			    (long long)last, (long long)v, (long long)i);
		last = v;
	}
	return err_at(e, d->idx_path, 0,
	    "the document index ends with %lld, not with the %lld sequences", (long long)last,
	    (long long)d->sequences);
}

/* The .bin must hold exactly the tokens that the lengths add up to. */
int
dataset_check_bin(const struct dataset *d, struct err *e)
{
	uint64_t want = (uint64_t)d->tokens * dtype_size(d->type);

	if (d->bin_bytes == want)
		return 0;
	return err_at(e, d->bin_path, 0,
	    "%llu bytes, but the index requires %llu (%lld tokens of %s): %s",
	    (unsigned long long)d->bin_bytes, (unsigned long long)want, (long long)d->tokens,
	    dtype_torch_name(d->type),
	    d->bin_bytes < want
		? "it is truncated, or belongs to another dataset"
		: "it continues after the last sequence, or belongs to another dataset");
}
