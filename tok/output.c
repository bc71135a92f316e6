/*
 * output.c - what a run writes: a dataset and its notes for every key, and the list of bad lines
 *
 * Used by one thread at a time. Names are PREFIX_KEY_document, or PREFIX_KEY_sentence when texts
 * were split, as in Megatron-LM.
 */
#include "lib/base/cli.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/target.h"
#include "lib/data/dataset.h"
#include "tok/output.h"
#include "tok/signals.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct output {
	const struct encode_config *c;
	int num_keys;
	char **name;                    /* one per key: the dataset's, without suffix */
	struct lock *own, **lock;       /* of the prefix, and of each key's dataset */
	struct dataset_writer **writer; /* one per key; NULL once it is committed */
	char *error_path;               /* NULL: bad lines end the run, or are only counted */
	struct outfile errors;
};

/* Builds the names of all keys. */
static void
make_names(struct output *o)
{
	const struct encode_config *c = o->c;
	struct str s = { 0 };

	o->num_keys = c->json_keys.count;
	o->name = mem_zalloc((size_t)o->num_keys, sizeof *o->name);
	o->lock = mem_zalloc((size_t)o->num_keys, sizeof(struct lock *));
	o->writer = mem_zalloc((size_t)o->num_keys, sizeof(struct dataset_writer *));
	for (int k = 0; k < o->num_keys; k++) {
		str_addf(&s, "%s_%s_%s", c->output_prefix, c->json_keys.item[k],
		    c->split_sentences ? "sentence" : "document");
		o->name[k] = str_detach(&s);
	}
	if (c->on_error == ON_ERROR_SKIP) {
		str_adds(&s, c->error_list ? c->error_list : c->output_prefix);
		str_adds(&s, c->error_list ? "" : ".errors.tsv");
		o->error_path = str_detach(&s);
	}
}

/* Called before any of them is created. */
static int
check_targets(const struct output *o, struct err *e)
{
	for (int k = 0; k < o->num_keys; k++)
		if (dataset_check_target(o->name[k], o->c->force, e) < 0)
			return -1;
	return o->error_path ? errors_check_target(o->error_path, o->c->force, e) : 0;
}

struct output *
output_claim(const struct encode_config *c, struct err *e)
{
	const struct lock_terms how = { .say = cli_note, .give_up = signals_pending };
	struct output *o = mem_zalloc(1, sizeof *o);
	struct str path = { 0 };
	bool held;

	o->c = c;
	make_names(o);
	str_addf(&path, "%s.lock", c->output_prefix);
	o->own = lock_claim(path.buf, &how, e);
	held = o->own != NULL;
	for (int k = 0; k < o->num_keys && held; k++)
		held = (o->lock[k] = dataset_claim(o->name[k], &how, e)) != NULL;
	str_release(&path);
	if (held)
		return o;
	output_close(o, true);
	return NULL;
}

int
output_check(const struct output *o, struct err *e)
{
	return o ? lock_check(o->own, e) : 0;
}

struct lock *
output_lock(const struct output *o)
{
	return o->own;
}

bool
output_lost(const struct output *o)
{
	return o && lock_lost(o->own);
}

/* A writer that knows its lock and, for lines that say what is trained, has a mask. */
static int
settle_writer(struct output *o, int k, struct err *e)
{
	enum chat_kind kind;

	if (!o->writer[k] || chat_check(&o->c->chat, &kind, e) < 0)
		return -1;
	dataset_writer_guard(o->writer[k], o->lock[k], o->c->force);
	return kind == CHAT_NONE ? 0 : dataset_writer_add_mask(o->writer[k], o->lock[k], e);
}

/* Opens the writer of a key. A resumed run may have committed the key already: then there is
 * none. */
static int
open_writer(struct output *o, int k, enum dtype t, const struct resume_state *from, struct err *e)
{
	struct dataset_mark mark = { 0 };
	int done = 0;

	if (!o->c->resume) {
		o->writer[k] = dataset_writer_new(o->name[k], t, e);
		return settle_writer(o, k, e);
	}
	if (from)
		mark = (struct dataset_mark){ from->key[k].bin_bytes, from->key[k].sequences,
			from->key[k].documents };
	if (from && from->committing)
		done = dataset_was_committed(o->name[k], &mark, e);
	if (done)
		return done < 0 ? -1 : 0;
	o->writer[k] = dataset_writer_resume(o->name[k], t, from ? &mark : NULL, o->lock[k], e);
	return settle_writer(o, k, e);
}

/* The names of what a later run continues are on disk before any record speaks of them. */
static int
sync_names(const struct output *o, struct err *e)
{
	if (!o->c->resume)
		return 0;
	if (o->error_path && io_sync_parent(o->error_path, e) < 0)
		return -1;
	return io_sync_parent(o->c->output_prefix, e);
}

/* Targets are checked when a run begins, not when it is resumed: a commit may have been cut
 * short. */
int
output_open(struct output *o, enum dtype t, const struct resume_state *from, struct err *e)
{
	const struct error_start start = { o->c->resume, o->own, from ? from->error_bytes : 0 };
	int rc = from ? 0 : check_targets(o, e), there;

	for (int k = 0; k < o->num_keys && rc == 0; k++)
		rc = open_writer(o, k, t, from, e);
	there = rc < 0 ? -1 : 0;
	if (rc == 0 && o->error_path && from && from->committing)
		there = io_there(o->error_path, e);
	if (there < 0)
		return -1;
	if (o->error_path && !there &&
	    (lock_check(o->own, e) < 0 || errors_open(&o->errors, o->error_path, &start, e) < 0))
		return -1;
	return sync_names(o, e);
}

/* Frees everything; what was not committed is removed, or kept for a later run, as it is when it
 * belongs to another run by now. */
void
output_close(struct output *o, bool keep)
{
	if (!o)
		return;
	keep |= lock_check(o->own, NULL) < 0;
	for (int k = 0; k < o->num_keys; k++) {
		if (o->writer[k])
			dataset_abort(o->writer[k]);
		if (o->writer[k] && o->c->resume && !keep)
			keep = dataset_drop_parts(o->name[k], o->lock[k], NULL) < 0;
		lock_release(o->lock[k]);
		free(o->name[k]);
	}
	if (o->c->resume && (keep || lock_check(o->own, NULL) < 0))
		outfile_leave(&o->errors);
	else
		outfile_abort(&o->errors);
	lock_release(o->own);
	free(o->error_path);
	free(o->name);
	free(o->lock);
	free(o->writer);
	free(o);
}

/* The documents of a key are a batch. -1 mostly means a full disk. */
int
output_job(struct output *o, const struct job *j, struct err *e)
{
	for (int k = 0; k < o->num_keys; k++) {
		const struct part *part = &j->part[k];
		struct dataset_batch b = {
			.stored = part->tokens.file ? fileno(part->tokens.file) : -1,
			.stored_bytes = part->tokens.stored,
			.tokens = part->tokens.tail.buf,
			.lengths = (const int32_t *)(const void *)part->lengths.buf,
			.per_document = (const int32_t *)(const void *)part->sequences.buf,
			.sequences = (int64_t)(part->lengths.len / sizeof(int32_t)),
			.documents = (int64_t)(part->sequences.len / sizeof(int32_t)),
			.mask = part->mask.tail.buf,
			.mask_stored = part->mask.file ? fileno(part->mask.file) : -1,
			.mask_stored_bytes = part->mask.stored,
		};

		if (dataset_add_batch(o->writer[k], &b, e) < 0)
			return -1;
	}
	return 0;
}

/* Without a list, bad lines are only counted. */
void
output_bad(struct output *o, const struct error_row *row)
{
	if (o->errors.f)
		errors_add(&o->errors, row);
}

/* Only in a run that can be resumed. */
int
output_sync(struct output *o, struct resume_state *state, struct err *e)
{
	for (int k = 0; k < o->num_keys; k++) {
		struct dataset_mark mark;

		if (!o->writer[k])
			continue;
		if (dataset_sync(o->writer[k], &mark, e) < 0)
			return -1;
		state->key[k] =
		    (struct resume_key){ mark.bin_bytes, mark.sequences, mark.documents };
	}
	return o->errors.f ? outfile_sync(&o->errors, &state->error_bytes, e) : 0;
}

/* Commits a key with its notes, unless an earlier run has done it. */
static int
commit_key(struct output *o, int k, const struct sidecar *notes, struct err *e)
{
	struct dataset_writer *w = o->writer[k];
	struct str text = { 0 };

	if (!w)
		return 0;
	sidecar_text(notes, k, dataset_writer_mask_name(w), &text);
	dataset_writer_describe(w, text.buf);
	str_release(&text);
	o->writer[k] = NULL;
	return dataset_commit(w, e);
}

/* The list of bad lines comes first, since the presence of an index means that all is there. The
 * temporary files for a resumed run are removed last, also those of an earlier run that --force
 * replaces. When a key fails, those before it are committed and those after it are not: -1. */
int
output_commit(struct output *o, const struct sidecar *notes, struct err *e)
{
	if (lock_check(o->own, e) < 0 ||
	    (o->errors.f && target_commit(&o->errors, o->c->force, e) < 0))
		return -1;
	for (int k = 0; k < o->num_keys; k++)
		if (commit_key(o, k, notes, e) < 0) {
			if (k == 0 && o->error_path && !o->c->resume)
				lock_unlink(o->own, o->error_path, NULL);
			return -1;
		}
	for (int k = 0; k < o->num_keys && (o->c->resume || o->c->force); k++)
		if (dataset_drop_parts(o->name[k], o->lock[k], e) < 0)
			return -1;
	return lock_check(o->own, e);
}
