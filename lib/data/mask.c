/*
 * mask.c - which tokens of a dataset count where they are labels: PREFIX_mask, a byte a token
 *
 * A mask is an ordinary dataset of bytes with the lengths and the documents of its tokens, so that
 * whatever copies, cuts or checks datasets does the same to it. One that the notes name and that is
 * missing, or is not of these tokens, is an error: a corpus copied without its mask would be
 * trained on as a whole.
 */
#include "lib/base/mem.h"
#include "lib/data/dataset_impl.h"
#include "lib/data/notes.h"

#include <stdlib.h>

const struct dataset *
dataset_mask(const struct dataset *d)
{
	return d->mask;
}

bool
dataset_mask_named(const struct dataset *d)
{
	return d->mask_named;
}

int
dataset_find_mask(struct dataset *d, char **out, struct err *e)
{
	const char *slash = strrchr(d->prefix, '/');
	struct str path = { 0 };
	struct mem_pool pool = { 0 };
	const char *mask;
	int rc = notes_read_mask(d->prefix, &pool, &mask, e);

	*out = NULL;
	if (rc == 0 && mask) {
		d->mask_named = true;
		str_add(&path, d->prefix, slash ? (size_t)(slash + 1 - d->prefix) : 0);
		str_adds(&path, mask);
		*out = str_detach(&path);
	} else if (rc == 0) {
		str_addf(&path, "%s_mask.idx", d->prefix);
		rc = io_there(path.buf, e);
		if (rc > 0)
			*out = dataset_path(d->prefix, "_mask");
		rc = rc < 0 ? -1 : 0;
	}
	mem_pool_release(&pool);
	str_release(&path);
	return rc;
}

/* The first sequence whose length differs; the numbers of sequences are equal. */
static int64_t
first_difference(const struct dataset *d, const struct dataset *mask)
{
	int64_t i = 0;

	while (i < d->sequences && dataset_length(d, i) == dataset_length(mask, i))
		i++;
	return i;
}

static int
check_mask(const struct dataset *d, const struct dataset *mask, struct err *e)
{
	int64_t i;

	if (mask->type != DTYPE_U8)
		return err_at(e, mask->idx_path, 0, "a mask has tokens of uint8, not of %s",
		    dtype_torch_name(mask->type));
	if (mask->sequences != d->sequences)
		return err_at(e, mask->idx_path, 0,
		    "a mask of %lld sequences, but %s has %lld: it belongs to other tokens",
		    (long long)mask->sequences, d->prefix, (long long)d->sequences);
	i = first_difference(d, mask);
	if (i < d->sequences)
		return err_at(e, mask->idx_path, 0,
		    "sequence %lld has %lld bytes of a mask, but %lld tokens in %s: it belongs to "
		    "other tokens",
		    (long long)i, (long long)dataset_length(mask, i),
		    (long long)dataset_length(d, i), d->prefix);
	if (mask->documents != d->documents ||
	    memcmp(mask->document, d->document, 8 * (size_t)(d->documents + 1)) != 0)
		return err_at(e, mask->idx_path, 0,
		    "its documents are not those of %s: it belongs to other tokens", d->prefix);
	return 0;
}

int
dataset_open_mask(struct dataset *d, const struct dataset_options *o, struct err *e)
{
	struct dataset_options bytes = { .no_mmap_bin = o->no_mmap_bin, .any_count = o->any_count };
	struct err why;
	char *prefix;
	int rc = dataset_find_mask(d, &prefix, e);

	if (rc == 0 && prefix) {
		d->mask = dataset_open_with(prefix, &bytes, &why);
		rc = d->mask ? check_mask(d, d->mask, e) : -1;
		if (!d->mask && d->mask_named)
			err_at(e, d->prefix, 0, "its mask, which %s.json names: %s", d->prefix,
			    why.msg);
		else if (!d->mask)
			*e = why;
		dataset_forget(d);
		if (d->mask)
			dataset_forget(d->mask);
	}
	free(prefix);
	return rc;
}

int
dataset_weights(const struct dataset *d, int64_t sequence, int64_t first, int64_t count,
    uint8_t *out, struct err *e)
{
	const void *stored;

	if (count == 0)
		return 0;
	if (!d->mask) {
		memset(out, 1, (size_t)count);
		return 0;
	}
	stored = dataset_bytes(d->mask,
	    (uint64_t)(dataset_sequence_start(d->mask, sequence) + first), (size_t)count, out, e);
	if (stored && stored != out)
		memcpy(out, stored, (size_t)count);
	return stored ? 0 : -1;
}

/* Without a branch, to keep up with the disk. */
int
dataset_mask_values(
    const struct dataset *mask, const uint8_t *bytes, int64_t first, int64_t count, struct err *e)
{
	uint8_t all = 0;
	int64_t i = 0, sequence;

	for (int64_t k = 0; k < count; k++)
		all |= bytes[k];
	if (all <= 1)
		return 0;
	while (bytes[i] <= 1)
		i++;
	sequence = dataset_sequence_at(mask, first + i);
	return err_at(e, mask->bin_path, 0,
	    "token %lld of sequence %lld has the value %d: a mask has only 0 and 1",
	    (long long)(first + i - dataset_sequence_start(mask, sequence)), (long long)sequence,
	    bytes[i]);
}
