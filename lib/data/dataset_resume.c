/*
 * dataset_resume.c - a dataset writer that another run can continue
 *
 * The temporary files have names that do not change from run to run, and outlive the writer. Their
 * valid part is that of the last dataset_sync: a later run cuts off the rest. Only
 * dataset_drop_parts removes them, so that an interrupted commit can be repeated. A mask has such
 * files of its own, as many tokens as bytes of it.
 */
#include "lib/base/outfile.h"
#include "lib/data/dataset_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Opens one of the named temporary files and keeps its first bytes. A writer that was stopped
 * before this may have lost its lock, and its successor has such a file open. */
static int
open_part(struct outfile *o, const struct dataset_writer *w, const char *suffix, int64_t keep,
    struct lock *lock, struct err *e)
{
	char *path = dataset_path(w->prefix, suffix);
	int rc = lock_check(lock, e);

	if (rc == 0)
		rc = outfile_resume(o, path, keep, lock_taken_over(lock), lock, e);
	free(path);
	return rc;
}

/* A commit that was interrupted before its index had a name has left the tokens under the next one;
 * one of an earlier version under the final one. They are renamed back, since without the index
 * they are not a dataset. */
static int
take_back(const char *prefix, struct err *e)
{
	char *next = dataset_path(prefix, ".bin.new"), *bin = dataset_path(prefix, ".bin");
	char *part = dataset_path(prefix, ".bin.part"), *idx = dataset_path(prefix, ".idx");
	int kept = io_there(part, e), staged = kept == 0 ? io_there(next, e) : 0;
	int whole = kept == 0 && staged == 0 ? io_there(idx, e) : 0;
	const char *from = staged > 0 ? next : bin;
	int rc = kept < 0 || staged < 0 || whole < 0 ? -1 : 0;

	if (rc == 0 && kept == 0 && whole == 0 && rename(from, part) < 0 && errno != ENOENT)
		rc = err_sys(e, "rename", from);
	free(next);
	free(bin);
	free(part);
	free(idx);
	return rc;
}

/* Counts come from a file: each is checked before it is multiplied. */
struct dataset_writer *
dataset_writer_resume(const char *prefix, enum dtype t, const struct dataset_mark *from,
    struct lock *lock, struct err *e)
{
	struct dataset_mark none = { 0 };
	struct dataset_writer *w;
	struct outfile lengths = { 0 }, documents = { 0 }, sums = { 0 };
	int64_t blocks;

	if (from && (from->sequences > INT64_MAX / 16 || from->documents > INT64_MAX / 16)) {
		err_set(e, "%s: more sequences than 64-bit sizes allow", prefix);
		return NULL;
	}
	if (from && (lock_check(lock, e) < 0 || take_back(prefix, e) < 0))
		return NULL;
	from = from ? from : &none;
	w = dataset_writer_bare(prefix, t);
	w->keep = true;
	w->lock = lock;
	w->sequences = from->sequences;
	w->boundaries = from->documents;
	blocks = from->bin_bytes / SUMS_BLOCK;
	if (open_part(&w->bin, w, ".bin", from->bin_bytes, lock, e) < 0 ||
	    open_part(&lengths, w, ".lengths", 4 * from->sequences, lock, e) < 0 ||
	    open_part(&documents, w, ".documents", 8 * from->documents, lock, e) < 0 ||
	    open_part(&sums, w, ".sums", 8 * blocks, lock, e) < 0 ||
	    sums_begin(&w->sums, sums.f, fileno(w->bin.f), (uint64_t)from->bin_bytes, e) < 0) {
		outfile_leave(&lengths);
		outfile_leave(&documents);
		if (w->sums.file != sums.f)
			outfile_leave(&sums);
		dataset_abort(w);
		return NULL;
	}
	w->lengths = lengths.f;
	w->documents = documents.f;
	return w;
}

/* Syncs one of the three streams besides the tokens. */
static int
sync_spill(const struct dataset_writer *w, FILE **f, const char *suffix, struct err *e)
{
	char *part = dataset_path(w->prefix, suffix);
	int rc = outfile_sync_part(f, part, w->lock, e);

	free(part);
	return rc;
}

/* Four syncs, and as many of the mask; the caller decides how often they are worth it. The mark of
 * the mask follows from that of the tokens. */
int
dataset_sync(struct dataset_writer *w, struct dataset_mark *mark, struct err *e)
{
	struct dataset_mark of_mask;

	if (w->mask && dataset_sync(w->mask, &of_mask, e) < 0)
		return -1;
	mark->sequences = w->sequences;
	mark->documents = w->boundaries;
	return outfile_sync(&w->bin, &mark->bin_bytes, e) < 0 ||
		sync_spill(w, &w->lengths, ".lengths.part", e) < 0 ||
		sync_spill(w, &w->documents, ".documents.part", e) < 0 ||
		sync_spill(w, &w->sums.file, ".sums.part", e) < 0
	    ? -1
	    : 0;
}

/* The index is renamed last, after the tokens, which lose their temporary name first. */
int
dataset_was_committed(const char *prefix, const struct dataset_mark *mark, struct err *e)
{
	char *part = dataset_path(prefix, ".bin.part"), *next = dataset_path(prefix, ".bin.new");
	char *idx = dataset_path(prefix, ".idx"), *bin = dataset_path(prefix, ".bin");
	int kept = io_there(part, e), staged = kept == 0 ? io_there(next, e) : kept;
	int yes = staged == 0 ? io_there(idx, e) : staged < 0 ? -1 : 0;
	struct stat st;

	if (yes > 0 && stat(bin, &st) < 0)
		yes = errno == ENOENT ? 0 : err_sys(e, "look at", bin);
	else if (yes > 0)
		yes = st.st_size == mark->bin_bytes;

	free(bin);
	free(part);
	free(next);
	free(idx);
	return yes;
}

/* After a commit, or when no run will continue. */
int
dataset_drop_parts(const char *prefix, struct lock *lock, struct err *e)
{
	static const char *const suffix[] = { ".bin.part", ".lengths.part", ".documents.part",
		".sums.part", "_mask.bin.part", "_mask.lengths.part", "_mask.documents.part",
		"_mask.sums.part" };

	int rc = 0;

	for (int i = 0; i < 8 && rc == 0; i++) {
		char *path = dataset_path(prefix, suffix[i]);

		rc = lock_unlink(lock, path, e);
		free(path);
	}
	return rc;
}
