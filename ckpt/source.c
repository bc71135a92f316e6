/*
 * source.c - named tensors of a checkpoint or of a Hugging Face directory
 *
 * Lets diff compare two checkpoints or two exports with the same code. Exactly one of the two
 * pointers is set in an open source.
 */
#include "ckpt/source.h"

#include <string.h>

/*
 * A directory that looks like a Hugging Face model is opened as one; for anything else the
 * checkpoint reader gives the reason, as it recognises more kinds.
 */
int
named_open(struct named *s, const char *path, struct err *e)
{
	memset(s, 0, sizeof *s);
	if (hfdir_is(path))
		s->hf = hfdir_open(path, e);
	else
		s->ckpt = ckpt_open(path, e);
	return s->hf || s->ckpt ? 0 : -1;
}

/* Also closes a source whose opening failed: both closers accept NULL. */
void
named_close(struct named *s)
{
	ckpt_close(s->ckpt);
	hfdir_close(s->hf);
	memset(s, 0, sizeof *s);
}

/*
 * Indices follow the sorted names for either kind, which lets diff walk two sources together.
 */
int
named_count(const struct named *s)
{
	return s->hf ? hfdir_count(s->hf) : ckpt_count(s->ckpt);
}

/* Gives both kinds of entries one form. */
void
named_at(const struct named *s, int i, struct named_tensor *out)
{
	memset(out, 0, sizeof *out);
	out->elements = 1;
	if (s->hf) {
		const struct safetensors_entry *t = hfdir_at(s->hf, i);

		*out = (struct named_tensor){ t->name, t->dtype_name, t->dtype, t->ndim, { 0 }, 1,
			t->bytes };
		memcpy(out->shape, t->shape, sizeof t->shape);
	} else {
		const struct ckpt_tensor *t = ckpt_at(s->ckpt, i);

		*out = (struct named_tensor){ t->name, dtype_name(t->dtype), t->dtype, t->ndim,
			{ 0 }, 1, dtype_size(t->dtype) };
		memcpy(out->shape, t->shape, sizeof t->shape);
	}
	for (int d = 0; d < out->ndim; d++)
		out->elements *= out->shape[d];
	if (!s->hf)
		out->bytes *= (uint64_t)out->elements;
}

/* The same from pieces: the range is a few boxes. */
static int
read_checkpoint(
    struct ckpt *c, const struct ckpt_tensor *t, const int64_t range[2], char *dst, struct err *e)
{
	struct slice whole = slice_whole(t->ndim, t->shape), box[SLICE_FLAT_MAX];
	int n = slice_flat(&whole, range[0], range[1], box);

	for (int k = 0; k < n; k++) {
		if (ckpt_read(c, t->name, &box[k], t->dtype, dst, e) < 0)
			return -1;
		dst += (size_t)slice_elements(&box[k]) * dtype_size(t->dtype);
	}
	return 0;
}

/* A tensor of a Hugging Face file is one run of bytes. */
int
named_read(const struct named *s, int i, int64_t first, int64_t count, void *dst, struct err *e)
{
	const int64_t range[2] = { first, count };
	const struct safetensors_entry *t;
	struct named_tensor about;
	size_t size;

	if (!s->hf)
		return read_checkpoint(s->ckpt, ckpt_at(s->ckpt, i), range, dst, e);
	t = hfdir_at(s->hf, i);
	named_at(s, i, &about);
	size = about.elements ? t->bytes / (uint64_t)about.elements : 0;
	memcpy(dst, (const char *)t->data + (size_t)first * size, (size_t)count * size);
	return 0;
}
