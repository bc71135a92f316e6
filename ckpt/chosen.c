/* chosen.c - some tensors of a source in a safetensors file */
#include "ckpt/chosen.h"
#include "ckpt/copy.h"
#include "ckpt/slab.h"
#include "lib/base/cli.h"
#include "lib/base/relay.h"
#include "lib/ckpt/safetensors.h"

#include <fnmatch.h>
#include <stdlib.h>

/* A file that is being written. */
struct chosen {
	struct source *src;
	enum dtype dtype; /* of weights; DTYPE_NONE: as they are stored */
	struct safetensors_writer *w;
	struct slabs slabs;
};

static enum dtype
dtype_of(const struct chosen *c, const struct source_part *p)
{
	bool keep = c->dtype == DTYPE_NONE || !source_is_weight(c->src, p);

	return keep ? source_dtype(c->src, p->param, p->state) : c->dtype;
}

/* Declares the tensors whose elements have `size` bytes, and lists their slabs. */
static void
choose(struct chosen *c, const char *pattern, size_t size)
{
	struct source_tensor *all;
	int n = source_tensors(c->src, &all);

	for (int i = 0; i < n; i++) {
		const struct source_part *p = &all[i].part;
		enum dtype t = dtype_of(c, p);

		if (dtype_size(t) != size || fnmatch(pattern, all[i].name, 0))
			continue;
		safetensors_declare(c->w, all[i].name, t, p->param->ndim, p->param->shape);
		slabs_add(&c->slabs, p);
	}
	free(all);
}

static int
fill(void *ctx, int64_t i, void *buffer, struct err *e)
{
	const struct chosen *c = ctx;
	const struct source_part *p = &c->slabs.item[i];

	return source_read(c->src, p, dtype_of(c, p), buffer, e);
}

static int
empty(void *ctx, int64_t i, const void *buffer, struct err *e)
{
	const struct chosen *c = ctx;
	const struct source_part *p = &c->slabs.item[i];
	size_t size = dtype_size(dtype_of(c, p));

	return safetensors_write(c->w, buffer, (size_t)slice_elements(&p->slice) * size, e);
}

/* Larger elements come first, so that all are aligned. */
static int
write_file(
    struct chosen *c, const struct provenance_sources *of, const char *pattern, struct err *e)
{
	struct relay relay = {
		.bytes = SLAB_ELEMENTS * sizeof(double), .fill = fill, .empty = empty, .ctx = c
	};
	int rc;

	for (size_t size = sizeof(double); size > 1; size /= 2)
		choose(c, pattern, size);
	relay.count = c->slabs.count;
	rc = relay.count ? relay_run(&relay, e)
			 : err_at(e, c->src->path, 0,
			       "no tensor matches '%s'; mckpt info --tensors lists them", pattern);
	slabs_release(&c->slabs);
	if (rc == 0)
		rc = copy_unchanged(of, e);
	if (rc == 0)
		return safetensors_commit(c->w, e);
	safetensors_abort(c->w);
	return rc;
}

int
chosen_write(struct derived *d, const struct derived_job *job, const char *pattern, struct err *e)
{
	const struct provenance_sources of = { d->from, d->count, NULL, NULL };
	struct chosen c = { .src = &d->s, .dtype = job->dtype };
	struct str notes = { 0 };
	int there = io_there(job->save, e), rc = there < 0 ? -1 : 0;

	if (rc == 0 && there && (!job->force || io_is_dir(job->save)))
		rc = err_set(e, "'%s' exists%s", job->save,
		    io_is_dir(job->save) ? " and is a directory" : "; --force replaces it");
	if (rc == 0 && !(c.w = safetensors_writer_direct(job->save, e)))
		rc = -1;
	if (rc == 0)
		rc = write_file(&c, &of, pattern, e);
	str_add(&notes, d->s.notes.buf, d->s.notes.len);
	cli_notes(&notes);
	derived_close(d);
	return rc;
}
