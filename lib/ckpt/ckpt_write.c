/*
 * ckpt_write.c - writes checkpoints: pieces into a temporary directory, then one rename
 *
 * Any number of processes write their pieces into one hidden directory; each keeps the lines of its
 * pieces, and one process collects them, writes the texts, opens the result as a reader would, and
 * renames. Until then a reader finds the previous checkpoint, so being killed at any point costs
 * only this save.
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/outfile.h"
#include "lib/base/temp.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Pieces are declared, then written, in one order, since the header of a safetensors file comes
 * first.
 */
struct ckpt_writer {
	struct safetensors_writer *file;
	char file_name[40];
	struct mem_pool pool;       /* owns the names and the sums */
	struct ckpt_tensor *tensor; /* one per piece */
	struct ckpt_piece *piece;
	uint64_t **sum; /* of the blocks of each piece */
	int count, cap;
	int next;                  /* next piece to write */
	uint64_t at;               /* bytes of it that are written */
	struct hash_stream *block; /* of its block that is not complete; NULL: none */
};

/* Paths of one iteration while it gets its name from tmp. */
struct commit_paths {
	const char *tmp;
	char dir[IO_PATH], old[IO_PATH];
};

/* SAVE/.iter_0000500.old: on the file system of its final name, with a dot so that no listing takes
 * it for a checkpoint. */
static int
old_dir(const char *save, int64_t iteration, char out[IO_PATH], struct err *e)
{
	if (snprintf(out, IO_PATH, "%s/.iter_%07lld.old", save, (long long)iteration) >= IO_PATH)
		return err_set(e, "path too long: '%.60s...'", save);
	return 0;
}

int
ckpt_remove(const char *save, const char *path, struct lock *lock, struct err *e)
{
	char *own = temp_name(path);
	int rc = lock_check(lock, e);

	if (rc == 0 && rename(path, own) < 0)
		rc = errno == ENOENT ? 0 : err_sys(e, "rename to", own);
	else if (rc == 0 && (rc = io_fsync_dir(save, e)) == 0)
		rc = io_remove_tree(own, e);
	free(own);
	return rc;
}

int
ckpt_begin(const char *save, int64_t iteration, char out[IO_PATH], struct err *e)
{
	struct str dir = { 0 };
	char *own;
	int n;

	str_addf(&dir, "%s/iter_%07lld", save, (long long)iteration);
	own = temp_name(dir.buf);
	n = snprintf(out, IO_PATH, "%s", own);
	free(own);
	str_release(&dir);
	if (n >= IO_PATH) {
		out[0] = '\0';
		return err_set(e, "path too long: '%.60s...'", save);
	}
	return io_mkdir_p(out, e);
}

/* The iteration N of a name .iter_N.SUFFIX, or -1. */
static int64_t
hidden_iteration(const char *name)
{
	long long iteration;

	return sscanf(name, ".iter_%lld.", &iteration) == 1 && iteration >= 0 ? iteration : -1;
}

/* A crash between the two renames of put_in_place leaves the only copies of a checkpoint under
 * hidden names. Says how to have it back, when name is that of the older one. */
static bool
is_only_copy(const char *save, const char *name, void (*say)(const char *line))
{
	int64_t iteration = hidden_iteration(name);
	char old[IO_PATH], dir[IO_PATH];
	struct str line = { 0 };

	if (iteration < 0 || old_dir(save, iteration, old, NULL) < 0 || io_there(old, NULL) == 0)
		return false;
	ckpt_iter_dir(save, iteration, dir);
	if (io_exists(dir))
		return false;
	if (!strcmp(old + strlen(save) + 1, name)) {
		str_addf(&line,
		    "'%s' is a checkpoint whose replacement was interrupted: rename it to '%s', or "
		    "remove it",
		    old, dir);
		say(line.buf);
		str_release(&line);
	}
	return true;
}

/* Whether an interrupted save may have left a file or a directory of this name. One of an earlier
 * version had .tmp alone after the iteration. */
static bool
is_left(const char *name)
{
	const char *end = strrchr(name, '.');

	return hidden_iteration(name) < 0 ? temp_is_leaving(name, TEMP_OF_ANYBODY)
					  : !strcmp(end, ".old") || !strcmp(end, ".tmp");
}

/* Removes what interrupted saves left, also temporary files of trackers and locks; never a part of
 * a checkpoint. */
static void
sweep(const char *save, struct lock *lock, void (*say)(const char *line))
{
	DIR *d = opendir(save);
	struct str path = { 0 };
	struct dirent *de;

	while (d && (de = readdir(d))) {
		str_clear(&path);
		str_addf(&path, "%s/%s", save, de->d_name);
		if (is_left(de->d_name) && !is_only_copy(save, de->d_name, say))
			ckpt_remove(save, path.buf, lock, NULL);
	}
	if (d)
		closedir(d);
	str_release(&path);
}

/* The longest path that a save makes is the temporary name of a file of pieces. */
static int
check_length(const char *save, struct err *e)
{
	struct str path = { 0 };
	char *dir, *longest;
	size_t n;

	str_addf(&path, "%s/iter_0000000", save);
	dir = temp_name(path.buf);
	str_clear(&path);
	str_addf(&path, "%s/pieces-00000.safetensors", dir);
	longest = temp_name(path.buf);
	n = strlen(longest);
	free(dir);
	free(longest);
	str_release(&path);
	return n < IO_PATH
	    ? 0
	    : err_set(e,
		  "path too long: '%.60s...': files of a checkpoint there have paths "
		  "of %zu bytes, at most %d are possible",
		  save, n, IO_PATH - 1);
}

int
ckpt_make_save(const char *save, struct err *e)
{
	if (check_length(save, e) < 0)
		return -1;
	if (io_mkdir_p(save, e) < 0)
		return -1;
	return access(save, W_OK) < 0 ? err_sys(e, "write into", save) : 0;
}

struct lock *
ckpt_claim(const char *save, const struct lock_terms *how, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	struct lock *lock;

	ckpt_join(path, save, "lock");
	lock = lock_claim(path, how, e);
	if (lock)
		sweep(save, lock, how->say);
	return lock;
}

/* More than 99999 writers only make the number longer. */
static struct ckpt_writer *
create(const char *tmp_dir, int file_number,
    struct safetensors_writer *(*open)(const char *, struct err *), struct err *e)
{
	struct ckpt_writer *w = mem_zalloc(1, sizeof *w);
	char path[CKPT_PATH_BYTES];

	snprintf(w->file_name, sizeof w->file_name, "pieces-%05d.safetensors", file_number);
	snprintf(path, sizeof path, "%s/%s", tmp_dir, w->file_name);
	w->file = open(path, e);
	if (!w->file) {
		free(w);
		return NULL;
	}
	return w;
}

struct ckpt_writer *
ckpt_writer_new(const char *tmp_dir, int file_number, struct err *e)
{
	return create(tmp_dir, file_number, safetensors_writer_new, e);
}

struct ckpt_writer *
ckpt_writer_direct(const char *tmp_dir, int file_number, struct err *e)
{
	return create(tmp_dir, file_number, safetensors_writer_direct, e);
}

/*
 * The name in the file carries the start of the piece, which makes it unique however many pieces of
 * one tensor a writer has. The manifest's fields are kept until the file is finished.
 */
void
ckpt_declare(struct ckpt_writer *w, const char *name, enum dtype t, int ndim, const int64_t *shape,
    const struct slice *slice)
{
	struct ckpt_tensor tensor = {
		.name = mem_pool_strndup(&w->pool, name, strlen(name)), .dtype = t, .ndim = ndim
	};
	struct ckpt_piece piece = { .slice = *slice,
		.bytes = (uint64_t)slice_elements(slice) * dtype_size(t) };
	struct str entry = { 0 };

	if (ndim < 1 || ndim > SLICE_DIMS || !slice_inside(slice, ndim, shape) || piece.bytes == 0)
		BUG("piece of '%s' is empty or outside its tensor", name);
	memcpy(tensor.shape, shape, (size_t)ndim * sizeof *shape);
	piece.num_sums = (int64_t)((piece.bytes - 1) / CKPT_BLOCK_BYTES + 1);
	if (w->count == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 64;
		w->tensor = mem_realloc(w->tensor, (size_t)w->cap, sizeof *w->tensor);
		w->piece = mem_realloc(w->piece, (size_t)w->cap, sizeof *w->piece);
		w->sum = mem_realloc(w->sum, (size_t)w->cap, sizeof *w->sum);
	}
	piece.sum = w->sum[w->count] =
	    mem_pool_alloc(&w->pool, (size_t)piece.num_sums, sizeof *piece.sum);
	w->tensor[w->count] = tensor;
	w->piece[w->count++] = piece;
	str_addf(&entry, "%s@", name);
	manifest_print_list(&entry, ndim, slice->start);
	safetensors_declare(w->file, entry.buf, t, ndim, slice->count);
	str_release(&entry);
}

/* Adds bytes to the checksums of the next piece, whose blocks need not end where calls end. */
static void
add_sums(struct ckpt_writer *w, const char *bytes, uint64_t len)
{
	uint64_t n, end = w->piece[w->next].bytes;

	for (; len; bytes += n, len -= n) {
		uint64_t *sum = &w->sum[w->next][w->at / CKPT_BLOCK_BYTES],
			 room = CKPT_BLOCK_BYTES - w->at % CKPT_BLOCK_BYTES;

		n = len < room ? len : room;
		w->block = w->block ? w->block : hash_stream_new();
		hash_stream_add(w->block, bytes, n);
		w->at += n;
		if (n < room && w->at < end)
			continue;
		*sum = hash_stream_free(w->block);
		w->block = NULL;
	}
}

/* Checksums cover the bytes as they were passed in, so that damage on the way to the disk is found
 * on reading. */
int
ckpt_write_part(struct ckpt_writer *w, const void *bytes, uint64_t len, struct err *e)
{
	struct ckpt_piece *p = &w->piece[w->next];

	if (w->next == w->count || len > p->bytes - w->at)
		BUG("%s: more written than declared", w->file_name);
	if (safetensors_write(w->file, bytes, len, e) < 0)
		return -1;
	add_sums(w, bytes, len);
	if (w->at == p->bytes) {
		p->offset = safetensors_offset(w->file, w->next++);
		w->at = 0;
	}
	return 0;
}

int
ckpt_write(struct ckpt_writer *w, const void *bytes, struct err *e)
{
	return ckpt_write_part(w, bytes, w->piece[w->next].bytes, e);
}

/* Frees all but the file. */
static void
writer_free(struct ckpt_writer *w)
{
	if (w->block)
		hash_stream_free(w->block);
	mem_pool_release(&w->pool);
	free(w->tensor);
	free(w->piece);
	free(w->sum);
	free(w);
}

/* Appends the lines only when the file is on disk. */
int
ckpt_writer_finish(struct ckpt_writer *w, struct str *manifest, struct err *e)
{
	int rc = 0;

	if (w->count == 0)
		safetensors_abort(w->file);
	else
		rc = safetensors_commit(w->file, e);
	for (int i = 0; i < w->count && rc == 0; i++)
		manifest_print_piece(manifest, &w->tensor[i], &w->piece[i], w->file_name);
	writer_free(w);
	return rc;
}

/* Leaves neither file nor lines. */
void
ckpt_writer_abort(struct ckpt_writer *w)
{
	if (!w)
		return;
	safetensors_abort(w->file);
	writer_free(w);
}

/* Writes a text into the temporary directory. */
static int
put_text(const char *tmp, const char *name, const char *text, size_t len, struct err *e)
{
	char path[CKPT_PATH_BYTES];

	snprintf(path, sizeof path, "%s/%s", tmp, name);
	return outfile_write(path, text, len, e);
}

/*
 * Sorts and checks the lines of all writers and writes manifest.tsv. Parsing the result finds a
 * hole or an overlap before the old checkpoint is replaced.
 */
static int
put_manifest(const struct ckpt_commit *c, struct err *e)
{
	const uint64_t sum[MANIFEST_TEXTS] = {
		[MANIFEST_OPTIONS] = hash_xxh3(c->options, strlen(c->options)),
		[MANIFEST_STATE] = hash_xxh3(c->state, strlen(c->state)),
	};
	struct str text = { 0 };
	struct manifest m;
	int rc;

	manifest_print_head(&text, MANIFEST_VERSION, sum);
	str_adds(&text, c->manifest);
	manifest_print_end(&text, MANIFEST_VERSION);
	rc = manifest_parse(&m, text.buf, text.len, "manifest.tsv", e);
	if (rc == 0) {
		str_clear(&text);
		manifest_print(&m, &text);
		manifest_release(&m);
		rc = put_text(c->tmp, "manifest.tsv", text.buf, text.len, e);
	}
	str_release(&text);
	return rc;
}

/*
 * Gives the finished directory its name. An existing iteration is exchanged atomically; file
 * systems that cannot do that get two renames, the first undone when the second fails. The caller
 * removes the replaced directory.
 */
static int
put_in_place(const struct commit_paths *p, const struct ckpt_commit *c, struct err *e)
{
	if (rename(p->tmp, p->dir) == 0)
		return 0;
	if (c->fresh || (errno != ENOTEMPTY && errno != EEXIST))
		return err_sys(e, "rename to", p->dir);
	if (renameat2(AT_FDCWD, p->tmp, AT_FDCWD, p->dir, RENAME_EXCHANGE) == 0)
		return 0;
	if (ckpt_remove(c->save, p->old, c->lock, e) < 0 || lock_check(c->lock, e) < 0)
		return -1;
	if (rename(p->dir, p->old) < 0)
		return err_sys(e, "rename to", p->old);
	if (rename(p->tmp, p->dir) < 0) {
		err_sys(e, "rename to", p->dir);
		rename(p->old, p->dir);
		return -1;
	}
	return 0;
}

/* Gives the finished directory its name. What has that name already is moved aside as often as it
 * comes: a rename replaces nothing but an empty directory. */
static int
put_beside(const struct commit_paths *p, const struct ckpt_commit *c, struct err *e)
{
	struct stat st;
	char to[IO_PATH];

	for (;;) {
		bool there = lstat(p->dir, &st) == 0;

		if (!there && rename(p->tmp, p->dir) == 0)
			return 0;
		if (!there && errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
			return err_sys(e, "rename to", p->dir);
		if (ckpt_move_aside(c->save, c->iteration, to, e) < 0)
			return -1;
		str_addf(c->aside, "%s%s", c->aside->len ? ", " : "", to);
	}
}

/*
 * Writes the tracker by a rename of its own; readers see the old number or the new one, and both
 * directories are complete.
 */
int
ckpt_put_tracker(const char *save, int64_t iteration, struct lock *lock, struct err *e)
{
	char text[32], path[CKPT_PATH_BYTES];
	int n = snprintf(text, sizeof text, "%lld", (long long)iteration);

	ckpt_join(path, save, CKPT_TRACKER);
	return outfile_write_held(path, text, (size_t)n, lock, e);
}

/* The directory under its temporary name is complete. Until the rename the one before is untouched,
 * and a failure removes what was written, since the next attempt may need the space. */
int
ckpt_publish(const struct ckpt_commit *c, struct err *e)
{
	struct commit_paths p = { .tmp = c->tmp };
	int rc;

	if (old_dir(c->save, c->iteration, p.old, e) < 0)
		return -1;
	ckpt_iter_dir(c->save, c->iteration, p.dir);
	rc = io_fsync_dir(p.tmp, e);
	if (rc == 0)
		rc = lock_check(c->lock, e);
	if (rc == 0)
		rc = c->aside ? put_beside(&p, c, e) : put_in_place(&p, c, e);
	if (rc < 0) {
		io_remove_tree(p.tmp, NULL);
		return -1;
	}
	if (io_fsync_dir(c->save, e) < 0 || ckpt_put_tracker(c->save, c->iteration, c->lock, e) < 0)
		return -1;
	/* Removing the replaced directory may fail; the new checkpoint is complete all the same. */
	io_remove_tree(p.tmp, NULL);
	ckpt_remove(c->save, p.old, c->lock, NULL);
	return 0;
}

/* Writes the texts and opens the result: a full disk or a rank that did not write is noticed here,
 * while the previous checkpoint is still in place. */
int
ckpt_commit(const struct ckpt_commit *c, struct err *e)
{
	struct ckpt *check = NULL;

	if (put_manifest(c, e) == 0 &&
	    put_text(c->tmp, "options.conf", c->options, strlen(c->options), e) == 0 &&
	    put_text(c->tmp, "state.conf", c->state, strlen(c->state), e) == 0)
		check = ckpt_open(c->tmp, e);
	ckpt_close(check);
	if (!check) {
		io_remove_tree(c->tmp, NULL);
		return -1;
	}
	return ckpt_publish(c, e);
}

int
ckpt_clone(const struct ckpt *c, const char *tmp_dir, struct str *manifest, struct err *e)
{
	char from[CKPT_PATH_BYTES], to[CKPT_PATH_BYTES];

	if (!ckpt_sealed(c))
		return err_at(e, c->dir, 0, "of an earlier version: its files are not cloned");
	for (int i = 0; i < c->m.num_files; i++) {
		ckpt_join(from, c->dir, c->m.file[i]);
		ckpt_join(to, tmp_dir, c->m.file[i]);
		if (outfile_copy(from, to, e) < 0)
			return -1;
		for (int k = c->m.first[i]; k < c->m.first[i + 1]; k++) {
			const struct ckpt_tensor *t = &c->m.tensor[c->m.place[k].tensor];

			manifest_print_piece(
			    manifest, t, &t->piece[c->m.place[k].piece], c->m.file[i]);
		}
	}
	return 0;
}

/*
 * Opening first proves that nothing else is wrong, so that a seal cannot make a damaged checkpoint
 * look intact. Version 1 has one checksum per piece, which the current format cannot express for
 * large pieces.
 */
int
ckpt_seal(const char *dir, struct str *changed, struct err *e)
{
	struct ckpt *c = ckpt_open_edited(dir, e);
	struct str text = { 0 };
	int rc = 0;

	if (!c)
		return -1;
	if (!ckpt_sealed(c))
		rc = err_at(e, ckpt_dir(c), 0,
		    "of an earlier version, which has no checksums of texts; mckpt reshard "
		    "rewrites it");
	for (int i = 0; i < MANIFEST_TEXTS && rc == 0; i++) {
		if (c->m.text_sum[i] != c->text_sum[i])
			str_addf(changed, "%s%s", changed->len ? " " : "", manifest_text_name[i]);
		c->m.text_sum[i] = c->text_sum[i];
	}
	if (rc == 0 && changed->len) {
		manifest_print(&c->m, &text);
		rc = put_text(ckpt_dir(c), "manifest.tsv", text.buf, text.len, e);
	}
	str_release(&text);
	ckpt_close(c);
	return rc;
}
