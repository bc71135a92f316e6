/*
 * dataset_publish.c - a dataset appears under its names, or takes the place of another, whole
 *
 * Two names cannot change at once, and tokens under the index of other tokens would be read
 * without an error. So all files are complete and on disk under the names of the next dataset
 * first: PREFIX.bin.new, PREFIX.json.new, PREFIX.sum.new, those of its mask, if it has one, and,
 * last, PREFIX.idx.new. From then on
 * the next dataset counts. Its index comes last to its own name, after the old one is gone and the
 * tokens are there; each step can be repeated, so that the next writer finishes what a killed one
 * has left.
 */
#include "lib/base/hash.h"
#include "lib/base/json.h"
#include "lib/base/lock.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/base/target.h"
#include "lib/data/dataset_impl.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { NOTES_MAX = 1 << 30 };

/* What lies beside a dataset and is wrong for another one. */
static const char *const beside[] = { ".json", ".xxh", ".sum", "_mask.bin", "_mask.xxh",
	"_mask.sum", "_mask.idx" };
enum { BESIDE = sizeof beside / sizeof *beside };

/* 1 when PREFIX and the suffix name something, be it a link to nothing; 0: nothing; -1: it cannot
 * be looked at. */
static int
there(const char *prefix, const char *suffix, struct err *e)
{
	char *path = dataset_path(prefix, suffix);
	struct stat st;
	int yes = lstat(path, &st) == 0           ? 1
	    : errno == ENOENT || errno == ENOTDIR ? 0
						  : err_sys(e, "look at", path);

	free(path);
	return yes;
}

/* Removes a file that may be missing: 1 when it was there. */
static int
remove_one(const char *prefix, const char *suffix, struct err *e)
{
	char *path = dataset_path(prefix, suffix);
	int rc = unlink(path) == 0 ? 1 : errno == ENOENT ? 0 : err_sys(e, "replace", path);

	free(path);
	return rc;
}

/* It is of who holds the lock, and may be large. */
static int
drop(const char *prefix, const char *suffix, struct lock *lock, struct err *e)
{
	char *path = dataset_path(prefix, suffix);
	int rc = lock_unlink(lock, path, e);

	free(path);
	return rc;
}

/* Renames PREFIX.x.new to PREFIX.x; fresh: only when that name is free. */
static int
settle(const char *prefix, const char *suffix, bool fresh, struct err *e)
{
	char *path = dataset_path(prefix, suffix), *next = dataset_path(path, ".new");
	int rc = 0;

	if (fresh)
		rc = target_rename(next, path, e);
	else if (rename(next, path) < 0)
		rc = err_sys(e, "rename to", path);
	free(path);
	free(next);
	return rc;
}

/* Removes the older dataset's index and what lies beside it. After a sync, or the removal of a
 * large file, they may be those of another writer, which has taken the lock. */
static int
clear(const char *prefix, struct lock *lock, bool *counts, struct err *e)
{
	int rc = remove_one(prefix, ".idx", e);

	*counts = rc > 0;
	if (rc > 0 && io_sync_parent(prefix, e) < 0)
		return -1;
	for (int i = 0; i < BESIDE && rc >= 0; i++)
		rc = lock_check(lock, e) < 0 ? -1 : remove_one(prefix, beside[i], e);
	return rc < 0 ? -1 : 0;
}

/* The tokens, unless an earlier attempt has renamed them: what lies beside them is the next
 * dataset's then, and is not removed. */
static int
settle_tokens(const char *prefix, bool fresh, struct lock *lock, bool *counts, struct err *e)
{
	int rc = there(prefix, ".bin.new", e);

	if (rc <= 0)
		return rc;
	if ((!fresh && clear(prefix, lock, counts, e) < 0) || settle(prefix, ".bin", fresh, e) < 0)
		return -1;
	return io_sync_parent(prefix, e);
}

/* Gives the next dataset its names. What an earlier attempt has done is left out: so that a loss of
 * power leaves nothing but the beginning of it, the removal of the older index, the tokens, what
 * lies beside them and the index are on disk one after the other. *counts: an index was removed or
 * has its name, so that there is no way back. */
static int
settle_all(const char *prefix, bool fresh, struct lock *lock, bool *counts, struct err *e)
{
	int rc;

	*counts = false;
	rc = settle_tokens(prefix, fresh, lock, counts, e);
	if (rc == 0)
		rc = lock_check(lock, e);
	for (int i = 0; i < BESIDE && rc == 0; i++) {
		char *next = dataset_path(beside[i], ".new");

		rc = there(prefix, next, e);
		if (rc > 0)
			rc = settle(prefix, beside[i], fresh, e);
		free(next);
	}
	if (rc < 0 || io_sync_parent(prefix, e) < 0 || lock_check(lock, e) < 0 ||
	    settle(prefix, ".idx", fresh, e) < 0)
		return -1;
	*counts = true;
	return io_sync_parent(prefix, e);
}

/* Renames a temporary file that is complete to PREFIX.x.new. */
static int
stage(const char *prefix, const char *suffix, const char *tmp, struct err *e)
{
	char *next = dataset_path(prefix, suffix);
	int rc = rename(tmp, next) < 0 ? err_sys(e, "rename to", next) : 0;

	free(next);
	return rc;
}

/* Puts the notes on disk under a temporary name. */
static int
write_notes(const struct dataset_writer *w, struct outfile *o, struct err *e)
{
	char *path = dataset_path(w->prefix, ".json");
	int rc = 0;

	if (w->notes) {
		rc = outfile_open(o, path, e);
		if (rc == 0) {
			fputs(w->notes, o->f);
			rc = outfile_finish(o, e);
		}
	}
	free(path);
	return rc;
}

/* Puts the checksums of the tokens on disk under a temporary name; the index that they belong to is
 * whole under its own. */
static int
write_sums(struct dataset_writer *w, struct outfile *o, const struct outfile *idx, struct err *e)
{
	char *path = dataset_path(w->prefix, ".sum");
	struct map map;
	int rc = map_open(&map, idx->tmp, e);

	if (rc == 0)
		rc = sums_write(&w->sums, o, path, hash_xxh3(map.base, map.size), e);
	map_close(&map);
	if (rc == 0)
		rc = outfile_finish(o, e);
	else
		outfile_abort(o);
	free(path);
	return rc;
}

/* What is complete under temporary names, beside the tokens. */
struct ready {
	struct outfile notes, sums, mask_sums;
	const struct outfile *idx, *mask_idx; /* mask_idx NULL: no mask */
};

/* The names of the next dataset, on disk, the index after all others. What another writer has left
 * under them and this one has not is removed. */
static int
stage_all(const struct dataset_writer *w, const struct ready *r, bool tokens, struct err *e)
{
	bool mask = r->mask_idx != NULL;
	const struct {
		const char *suffix, *tmp;
	} row[] = {
		{ ".bin.new", tokens ? w->bin.tmp : NULL },
		{ ".json.new", w->notes ? r->notes.tmp : NULL },
		{ ".sum.new", tokens ? r->sums.tmp : NULL },
		{ "_mask.bin.new", mask ? w->mask->bin.tmp : NULL },
		{ "_mask.sum.new", mask ? r->mask_sums.tmp : NULL },
		{ "_mask.idx.new", mask ? r->mask_idx->tmp : NULL },
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof row / sizeof *row && rc == 0; i++)
		if (!row[i].tmp)
			rc = drop(w->prefix, row[i].suffix, w->lock, e);
		else
			rc = lock_check(w->lock, e) < 0
			    ? -1
			    : stage(w->prefix, row[i].suffix, row[i].tmp, e);
	if (rc < 0 || io_sync_parent(w->prefix, e) < 0 || lock_check(w->lock, e) < 0 ||
	    stage(w->prefix, ".idx.new", r->idx->tmp, e) < 0 || io_sync_parent(w->prefix, e) < 0)
		return -1;
	return lock_check(w->lock, e);
}

/* The tokens: removed, or under their temporary name where another run may continue. */
static int
withdraw_tokens(const struct dataset_writer *w)
{
	char *next;
	int rc;

	if (!w->keep)
		return drop(w->prefix, ".bin.new", w->lock, NULL);
	if (lock_check(w->lock, NULL) < 0)
		return -1;
	next = dataset_path(w->prefix, ".bin.new");
	rc = rename(next, w->bin.tmp) < 0 && errno != ENOENT ? -1 : 0;
	free(next);
	return rc;
}

/* Undoes settle: what has its own name has that of the next dataset. */
static int
unsettle(const char *prefix, const char *suffix)
{
	char *path = dataset_path(prefix, suffix), *next = dataset_path(suffix, ".new");
	char *to = dataset_path(prefix, next);
	int rc = there(prefix, next, NULL);

	if (rc == 0 && rename(path, to) < 0 && errno != ENOENT)
		rc = -1;
	free(path);
	free(next);
	free(to);
	return rc < 0 ? -1 : 0;
}

/* Undoes settle_all, in the other order, and takes the index away, on disk. A loss of power leaves
 * all that the next writer needs to finish it, or no index: never tokens alone under their own
 * name, which would be taken for a foreign file. After a sync all may be of another writer. */
static int
unsettle_all(const char *prefix, struct lock *lock, bool tokens)
{
	int rc = tokens ? there(prefix, ".bin.new", NULL) : 1;

	if (rc == 0) { /* the tokens have their name, and what lies beside them may have */
		for (int i = 0; i < BESIDE && rc == 0; i++)
			rc = unsettle(prefix, beside[i]);
		if (rc == 0)
			rc = io_sync_parent(prefix, NULL);
		if (rc == 0)
			rc = lock_check(lock, NULL) < 0 ? -1 : unsettle(prefix, ".bin");
	}
	if (rc < 0 || io_sync_parent(prefix, NULL) < 0 || drop(prefix, ".idx.new", lock, NULL) < 0)
		return -1;
	(void)io_sync_parent(prefix, NULL);
	return 0;
}

/* Gives the next dataset up: what this writer has renamed is removed. staged: all of it had the
 * names of the next dataset, so what has them no more has its own. Where that cannot be undone what
 * is there stays, and the next writer finishes it as that of a killed one. */
static void
withdraw(const struct dataset_writer *w, bool tokens, bool staged)
{
	static const char *const rest[] = { ".json.new", ".sum.new", "_mask.sum.new",
		"_mask.idx.new", ".idx.new" };

	if (lock_check(w->lock, NULL) < 0 ||
	    (staged && unsettle_all(w->prefix, w->lock, tokens) < 0) ||
	    (tokens && withdraw_tokens(w) < 0) || (w->mask && withdraw_tokens(w->mask) < 0))
		return;
	for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
		drop(w->prefix, rest[i], w->lock, NULL);
}

/* For an index alone, whose older one is damaged: it and the notes are no links. */
static int
look_at_names(const char *prefix, struct err *e)
{
	static const char *const suffix[] = { ".idx", ".json" };
	int rc = 0;

	for (int i = 0; i < 2 && rc >= 0; i++) {
		char *path = dataset_path(prefix, suffix[i]);

		rc = target_look(path, e);
		free(path);
	}
	return rc < 0 ? -1 : 0;
}

/* Nothing is removed before the successor of all is complete, and nothing that belongs to others:
 * a writer that has lost its lock meanwhile removes only its own temporary files. */
static int
replace(struct dataset_writer *w, const struct ready *r, bool tokens, struct err *e)
{
	bool staged, counts = false;
	int rc = lock_check(w->lock, e);

	if (rc == 0)
		rc = tokens ? dataset_check_target(w->prefix, !w->fresh, e)
			    : look_at_names(w->prefix, e);
	if (rc == 0 && tokens && w->keep)
		rc = outfile_finish(&w->bin, e);
	if (rc == 0 && w->mask && w->keep)
		rc = outfile_finish(&w->mask->bin, e);
	if (rc < 0 || lock_check(w->lock, e) < 0)
		return -1;
	rc = stage_all(w, r, tokens, e);
	staged = rc == 0;
	if (staged)
		rc = settle_all(w->prefix, w->fresh && tokens, w->lock, &counts, e);
	if (rc < 0 && !counts)
		withdraw(w, tokens, staged);
	return rc;
}

/* All tokens are on disk. A part that another run could continue is not closed before the names
 * change, so that it has its own then. */
static int
finish_tokens(struct dataset_writer *w, struct err *e)
{
	int64_t bytes;

	return w->keep ? outfile_sync(&w->bin, &bytes, e) : outfile_finish(&w->bin, e);
}

/* All of a mask under temporary names. */
static int
finish_mask(struct dataset_writer *w, struct ready *r, struct outfile *idx, struct err *e)
{
	if (finish_tokens(w->mask, e) < 0 || outfile_finish(idx, e) < 0)
		return -1;
	return write_sums(w->mask, &r->mask_sums, idx, e);
}

/* The temporary files that belong to no name after a failure. */
static void
remove_ready(const struct dataset_writer *w, const struct ready *r, bool tokens)
{
	if (tokens && !w->keep)
		unlink(w->bin.tmp);
	if (w->mask && !w->keep)
		unlink(w->mask->bin.tmp);
	if (w->notes)
		unlink(r->notes.tmp);
	if (r->sums.tmp[0])
		unlink(r->sums.tmp);
	if (r->mask_sums.tmp[0])
		unlink(r->mask_sums.tmp);
	if (r->mask_idx)
		unlink(r->mask_idx->tmp);
	unlink(r->idx->tmp);
}

/* The slow part comes first: all bytes are on disk when names change. */
int
dataset_publish(
    struct dataset_writer *w, struct outfile *idx, struct outfile *mask_idx, struct err *e)
{
	bool tokens = w->bin.f != NULL;
	struct ready r = { .idx = idx, .mask_idx = mask_idx };
	int rc = tokens ? finish_tokens(w, e) : 0;

	if (rc == 0)
		rc = write_notes(w, &r.notes, e);
	if (rc == 0)
		rc = outfile_finish(idx, e);
	if (rc == 0 && tokens)
		rc = write_sums(w, &r.sums, idx, e);
	if (rc == 0 && mask_idx)
		rc = finish_mask(w, &r, mask_idx, e);
	if (rc == 0)
		rc = replace(w, &r, tokens, e);
	if (rc < 0)
		remove_ready(w, &r, tokens);
	return rc;
}

bool
dataset_is_unfinished(const char *prefix)
{
	return there(prefix, ".idx", NULL) == 0 && there(prefix, ".idx.new", NULL) > 0;
}

struct lock *
dataset_claim(const char *prefix, const struct lock_terms *how, struct err *e)
{
	char *path = dataset_path(prefix, ".lock");
	struct lock_terms terms = { .say = how->say, .give_up = how->give_up };
	struct lock *lock = lock_claim(path, &terms, e);
	int unfinished = lock ? there(prefix, ".idx.new", e) : 0;
	bool ignored;

	free(path);
	if (unfinished > 0)
		unfinished = settle_all(prefix, false, lock, &ignored, e);
	if (unfinished == 0)
		return lock;
	lock_release(lock);
	return NULL;
}

/* --- what may be replaced --------------------------------------------------------------------- */

static bool
is_index(const char *prefix, const char *path)
{
	static const char magic[9] = "MMIDIDX\0";

	(void)prefix;
	return target_begins(path, magic, sizeof magic);
}

/* Tokens have no mark of their own: the index beside them tells. */
static bool
has_index(const char *prefix, const char *path)
{
	char *idx = dataset_path(prefix, ".idx");
	bool yes = is_index(prefix, idx);

	(void)path;
	free(idx);
	return yes;
}

/* All programs that write notes name themselves. */
static bool
is_notes(const char *prefix, const char *path)
{
	struct json *j = json_read_regular(path, NOTES_MAX, NULL);
	bool yes = j && json_root(j)->type == JSON_OBJECT && json_get(json_root(j), "made_by");

	(void)prefix;
	json_free(j);
	return yes;
}

static bool
is_checksums(const char *prefix, const char *path)
{
	(void)prefix;
	return target_begins(path, "XXH3_", 5);
}

static bool
is_sums(const char *prefix, const char *path)
{
	(void)prefix;
	return target_begins(path, sums_magic, sizeof sums_magic);
}

/* The type of tokens follows the magic and the version; that of a mask is uint8. */
static bool
is_mask(const char *prefix, const char *path)
{
	static const char start[] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\1";
	char *idx = dataset_path(prefix, "_mask.idx");
	bool yes = target_begins(idx, start, sizeof start - 1);

	(void)path;
	free(idx);
	return yes;
}

/* The files of a dataset, and how each is recognised. */
static const struct {
	const char *suffix, *what;
	bool (*is)(const char *prefix, const char *path);
} files[] = {
	{ ".bin", "has no index beside it that would make it a dataset", has_index },
	{ ".idx", "is not the index of a dataset", is_index },
	{ ".json", "is not the notes of a dataset", is_notes },
	{ ".xxh", "is not the checksums of a dataset", is_checksums },
	{ ".sum", "is not the checksums of tokens", is_sums },
	{ "_mask.bin", "has no index of a mask beside it", is_mask },
	{ "_mask.idx", "is not the index of a mask", is_mask },
	{ "_mask.xxh", "is not the checksums of a mask", is_checksums },
	{ "_mask.sum", "is not the checksums of a mask", is_sums },
};

int
dataset_check_target(const char *prefix, bool replace, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < sizeof files / sizeof *files && rc == 0; i++) {
		char *path = dataset_path(prefix, files[i].suffix);

		rc = target_look(path, e);
		if (rc == 1)
			rc = !files[i].is(prefix, path)
			    ? err_set(e, "'%s' %s: it is not replaced", path, files[i].what)
			    : target_check(path, replace, e);
		free(path);
	}
	return rc;
}
