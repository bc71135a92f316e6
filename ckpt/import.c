/*
 * import.c - mckpt import
 *
 * The input comes from elsewhere, so the whole model is checked before the first byte is written;
 * one rename makes the checkpoint appear. All is in one file: mckpt reshard divides it.
 */
#include "ckpt/copy.h"
#include "ckpt/import.h"

int
import_source(const struct import_options *o, struct str *notes, struct err *e)
{
	static const struct layout one = { 1, 1, 1, 1 };
	struct copy_options copy = { .save = o->save,
		.layout = &one,
		.dtype = o->dtype,
		.force = o->force,
		.check_finite = true,
		.allow_nonfinite = o->allow_nonfinite };
	struct source *s = source_open(o->src, e);
	int rc = -1;

	if (!s)
		return -1;
	str_add(notes, s->notes.buf, s->notes.len);
	copy.options = s->options.buf;
	copy.state = s->state_text.buf;
	if (s->kind == &source_ckpt)
		err_set(e, "'%s' is a checkpoint already; mckpt reshard rewrites it", o->src);
	else if (source_require(s, e) == 0)
		rc = copy_source(s, &copy, notes, e);
	source_close(s);
	return rc;
}
