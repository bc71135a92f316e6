/*
 * import.c - mckpt import
 *
 * The input is a foreign directory, so its kind is determined first: a wrong kind gets a message
 * that names it and says what to do. Then the whole model is checked, and only then is the first
 * byte written; one rename makes the checkpoint appear.
 */
#include "ckpt/finite.h"
#include "ckpt/hf.h"
#include "ckpt/import.h"
#include "ckpt/table.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/model/fields.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

/* Other files in the directory do not matter: checkpoints have names of their own. */
int
save_is_free(const char *save, bool force, struct err *e)
{
	int64_t iteration;

	if (force || !io_exists(save))
		return 0;
	if (!io_is_dir(save))
		return err_set(e, "'%s' exists and is not a directory", save);
	if (ckpt_has_iterations(save) || ckpt_tracker(save, &iteration, NULL) != 0)
		return err_set(e, "'%s' holds a checkpoint already; --force writes into it", save);
	return 0;
}

/* A directory that cannot be read has none; opening it later gives the reason. */
static bool
has_entry(const char *dir, const char *prefix)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	bool found = false;

	while (d && !found && (de = readdir(d)))
		found = !strncmp(de->d_name, prefix, strlen(prefix));
	if (d)
		closedir(d);
	return found;
}

/* Names the kind of a directory that is not a Hugging Face model. Returns 0 when it looks like
 * one. */
static int
check_kind(const char *src, struct err *e)
{
	char sub[1100], path[1200];
	int64_t iteration = 0;
	int tracked;

	if (!io_is_dir(src))
		return err_set(e, "'%s' is not a directory", src);
	tracked = ckpt_tracker(src, &iteration, NULL);
	snprintf(sub, sizeof sub, "%.1000s/%s", src, tracked < 0 ? "release" : "");
	if (tracked > 0)
		snprintf(sub, sizeof sub, "%.1000s/iter_%07lld", src, (long long)iteration);
	if (has_entry(src, "mp_rank_") || has_entry(sub, "mp_rank_"))
		return err_set(e,
		    "'%s' is a Megatron-LM checkpoint (mp_rank_* directories), which is not read "
		    "yet; convert it "
		    "to a Hugging Face directory first",
		    src);
	if (has_entry(sub, ".metadata") && has_entry(sub, "metadata.json"))
		return err_set(e,
		    "'%s' is a Megatron-LM torch_dist checkpoint, which is not read yet; convert "
		    "it to a Hugging "
		    "Face directory first",
		    src);
	snprintf(path, sizeof path, "%s/manifest.tsv", sub);
	if (io_exists(path))
		return err_set(e, "'%s' is a checkpoint already; mckpt reshard rewrites it", src);
	if (!hfdir_is(src) && has_entry(src, "pytorch_model"))
		return err_set(e,
		    "'%s' holds pytorch_model*.bin files, which are not read; save it as "
		    "safetensors",
		    src);
	return 0;
}

/* State of an import. */
struct import {
	const struct hf_model *m;
	const struct import_options *o;
	struct str *notes;
	int nonfinite;   /* tensors */
	char first[128]; /* the first of them */
};

/* Counts values of a tensor that are not finite after conversion: a narrower type may overflow. */
static void
check_finite(struct import *im, const struct param *p, const void *data, enum dtype t)
{
	int64_t n = param_elements(p);

	if (!finite_report(im->notes, im->m->path, p->name, dtype_count_nonfinite(data, t, n), n))
		return;
	if (im->nonfinite++ == 0)
		snprintf(im->first, sizeof im->first, "%s", p->name);
}

/*
 * Converts only on request: without --dtype a checkpoint keeps each tensor's own type. Memory is
 * one parameter, twice while converting.
 */
static int
copy_param(struct import *im, int i, struct ckpt_writer *w, struct err *e)
{
	const struct hf_model *m = im->m;
	enum dtype dtype = im->o->dtype;
	struct family_place place;
	const struct safetensors_entry *t = hf_model_find(m, i, &place, e);
	int64_t n = param_elements(&m->param[i]);
	void *read, *out;
	int rc;

	if (!t)
		return -1;
	out = read = mem_alloc((size_t)n, dtype_size(t->dtype));
	rc = hf_model_read(m, i, read, e);
	if (rc == 0 && dtype != DTYPE_NONE && dtype != t->dtype) {
		out = mem_alloc((size_t)n, dtype_size(dtype));
		dtype_convert(out, dtype, read, t->dtype, n);
	}
	if (rc == 0) {
		check_finite(im, &m->param[i], out, out == read ? t->dtype : dtype);
		rc = ckpt_write(w, out, e);
	}
	if (out != read)
		free(out);
	free(read);
	return rc;
}

/* -1 if values are not finite and --allow-nonfinite was not given. */
static int
require_finite(const struct import *im, struct err *e)
{
	if (im->nonfinite == 0 || im->o->allow_nonfinite)
		return 0;
	return err_set(e,
	    "%s: %d of %d tensors hold numbers that are not finite, '%s' first; --allow-nonfinite "
	    "imports them",
	    im->m->path, im->nonfinite, im->m->count, im->first);
}

/*
 * The header of the pieces file comes first and needs every type, hence two passes. One file, with
 * each parameter as one piece: mckpt reshard divides them.
 */
static int
copy_all(struct import *im, const char *tmp, struct str *manifest, struct err *e)
{
	const struct hf_model *m = im->m;
	enum dtype dtype = im->o->dtype;
	struct ckpt_writer *w = ckpt_writer_new(tmp, 0, e);
	int rc = 0;

	if (!w)
		return -1;
	for (int i = 0; i < m->count; i++) {
		const struct param *p = &m->param[i];
		struct slice whole = slice_whole(p->ndim, p->shape);
		struct family_place place;
		const struct safetensors_entry *t = hf_model_find(m, i, &place, e);

		ckpt_declare(w, p->name, dtype == DTYPE_NONE && t ? t->dtype : dtype, p->ndim,
		    p->shape, &whole);
	}
	for (int i = 0; i < m->count && rc == 0; i++)
		rc = copy_param(im, i, w, e);
	if (rc == 0)
		rc = require_finite(im, e);
	if (rc == 0)
		return ckpt_writer_finish(w, manifest, e);
	ckpt_writer_abort(w);
	return rc;
}

/* The state of a run before its first step; the keys are those that mtrain resumes from. */
static const char initial_state[] =
    "iteration 0\nconsumed_train_samples 0\noptimizer_steps 0\nskipped_iterations 0\n";

/* A failure before the commit removes the temporary directory. */
static int
write_all(struct import *im, struct err *e)
{
	const struct import_options *o = im->o;
	struct str manifest = { 0 }, options = { 0 };
	char tmp[1024];
	struct ckpt_commit c = { .save = o->save, .iteration = 0, .state = initial_state };
	int rc = ckpt_begin(o->save, 0, true, tmp, e);

	if (rc == 0)
		rc = copy_all(im, tmp, &manifest, e);
	if (rc == 0) {
		model_dump(&im->m->config, &options);
		c.manifest = manifest.buf;
		c.options = options.buf;
		rc = ckpt_commit(&c, e);
	} else {
		io_remove_tree(tmp, NULL);
	}
	str_release(&manifest);
	str_release(&options);
	return rc;
}

/* Everything is checked before the first byte is written. */
int
import_hf(const struct import_options *o, struct str *notes, struct err *e)
{
	struct hf_model m = { .path = "" };
	struct str problems = { 0 };
	int rc = -1, wrong = 0;

	if (check_kind(o->src, e) == 0 && save_is_free(o->save, o->force, e) == 0 &&
	    hf_model_open(&m, o->src, e) == 0) {
		wrong = hf_model_check(&m, &problems, notes);
		if (wrong == 0)
			rc = write_all(&(struct import){ .m = &m, .o = o, .notes = notes }, e);
		else
			err_set(e, "%.*s", (int)strcspn(problems.buf, "\n"), problems.buf);
		if (wrong > 1)
			str_addf(notes, "%d more problems; mckpt verify %s lists them\n", wrong - 1,
			    o->src);
	}
	str_release(&problems);
	hf_model_release(&m);
	return rc;
}
