/*
 * import.c - mckpt import
 *
 * The input comes from elsewhere, so the whole model is checked before the first byte is written;
 * one rename makes the checkpoint appear. All is in one file: mckpt reshard divides it.
 */
#include "ckpt/copy.h"
#include "ckpt/import.h"

/* A source that has not recorded its tokens gets the number that was given; without one all rows
 * are taken for tokens, with a note. */
static int
set_vocab(struct source *s, const struct import_options *o, struct str *notes, struct err *e)
{
	if (o->vocab_size)
		return source_set_vocab(s, o->vocab_size, e);
	if (s->padded_vocab)
		str_addf(notes,
		    "%s: the run has not recorded how many of the %lld rows of its vocabulary "
		    "tables are tokens: all are kept; --vocab-size drops the padding\n",
		    s->path, (long long)s->padded_vocab);
	return 0;
}

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
	if (set_vocab(s, o, notes, e) < 0) {
		source_close(s);
		return -1;
	}
	copy.options = s->options.buf;
	copy.state = s->state_text.buf;
	if (s->kind == &source_ckpt)
		err_set(e, "'%s' is a checkpoint already; mckpt reshard rewrites it", o->src);
	else if (source_require(s, e) == 0)
		rc = copy_source(s, &copy, notes, e);
	source_close(s);
	return rc;
}
