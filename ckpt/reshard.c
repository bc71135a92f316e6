/*
 * reshard.c - mckpt reshard
 *
 * The source and the layout are checked before anything is written. With a distributed optimizer
 * each data rank owns an equal part of each bucket; resharding always writes that form, as a reader
 * sees only boxes.
 */
#include "ckpt/copy.h"
#include "ckpt/reshard.h"
#include "lib/model/layout_text.h"

/* How long the reader's samples are is not known: its default split may be another, which costs it
 * nothing, as it reads boxes. */
int
reshard(const struct reshard_options *o, struct err *e)
{
	struct layout layout = o->layout;
	struct str options = { 0 }, notes = { 0 };
	struct copy_options copy = { .save = o->save,
		.layout = &layout,
		.dtype = DTYPE_NONE,
		.no_optim = o->no_optim,
		.force = o->force };
	struct source *s = source_open(o->src, e);
	int rc = -1;

	if (s && source_require(s, e) == 0 && layout_check(&layout, &s->config, e) == 0 &&
	    split_resolve(&o->split, &s->config, s->config.max_position_embeddings, &layout, e) ==
		0) {
		layout_replace(s->options.buf, &layout, &o->split, &options);
		copy.options = options.buf;
		copy.state = s->state_text.buf;
		rc = copy_source(s, &copy, &notes, e);
	}
	str_release(&options);
	str_release(&notes);
	source_close(s);
	return rc;
}
