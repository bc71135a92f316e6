/*
 * ckpt.c - opens a checkpoint, with every check that does not read pieces
 *
 * A checkpoint is a directory: manifest.tsv says which box of which tensor lies where, options.conf
 * and state.conf belong to the run, and the pieces are in safetensors files. Opening proves, from
 * the manifest, the checksums of the texts and the sizes of the files, that every element of every
 * tensor can be read; the checksums of pieces are compared when they are read (ckpt_read.c). The
 * format is described in mckpt(5).
 */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* No manifest (about 100 bytes per line) and no options text is larger than this. */
static const size_t manifest_max = (size_t)1 << 30, text_max = (size_t)1 << 24;

/* Reads and checks manifest.tsv. */
static int
load_manifest(struct ckpt *c, struct err *e)
{
	char path[CKPT_PATH_BYTES], *text;
	size_t len;
	int rc;

	ckpt_join(path, c->dir, "manifest.tsv");
	if (io_read_regular(path, manifest_max, &text, &len, e) < 0)
		return -1;
	rc = manifest_parse(&c->m, text, len, path, e);
	c->manifest_sum = hash_xxh3(text, len);
	free(text);
	c->checked = mem_zalloc((size_t)c->m.num_sums + 1, sizeof *c->checked);
	return rc;
}

/* Reads one of the texts, and compares its checksum if the manifest has one. */
static int
load_text(struct ckpt *c, enum manifest_text which, char **out, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	size_t len;

	ckpt_join(path, c->dir, manifest_text_name[which]);
	if (io_read_regular(path, text_max, out, &len, e) < 0)
		return -1;
	c->text_sum[which] = hash_xxh3(*out, len);
	if (c->m.version > 1 && !c->edited && c->text_sum[which] != c->m.text_sum[which])
		return err_set(e,
		    "%s: changed after it was saved: wrong checksum; mckpt seal accepts an "
		    "intended "
		    "change",
		    path);
	return 0;
}

/* The state of the run. A directory named iter_* must be that of the iteration; copies may have
 * other names. */
static int
load_state(struct ckpt *c, struct err *e)
{
	char path[CKPT_PATH_BYTES];
	const char *slash = strrchr(c->dir, '/');
	int64_t named = ckpt_name_iteration(slash ? slash + 1 : c->dir);

	if (load_text(c, MANIFEST_STATE, &c->state_text, e) < 0)
		return -1;
	ckpt_join(path, c->dir, manifest_text_name[MANIFEST_STATE]);
	if (state_parse(&c->state, c->state_text, path, e) < 0)
		return -1;
	if (named >= 0 && named != c->state.iteration)
		return err_at(e, path, 0,
		    "iteration %lld, but the directory is named for iteration %lld",
		    (long long)c->state.iteration, (long long)named);
	return 0;
}

/*
 * Takes the size of every file. Files are mapped on first read, since a rank needs few of the files
 * of a large checkpoint. Every piece must lie inside its file; compared by a difference, because
 * offset plus bytes may overflow. Later reads trust the offsets.
 */
static int
load_sizes(struct ckpt *c, struct err *e)
{
	c->map = mem_zalloc((size_t)c->m.num_files, sizeof *c->map);
	for (int i = 0; i < c->m.num_files; i++) {
		char path[CKPT_PATH_BYTES];
		struct stat st;

		ckpt_join(path, c->dir, c->m.file[i]);
		if (stat(path, &st) < 0)
			return err_sys(e, "open", path);
		if (!S_ISREG(st.st_mode))
			return err_set(e, "cannot open '%s': not a regular file", path);
		c->map[i].size = (uint64_t)st.st_size;
	}
	for (int i = 0; i < c->m.num_pieces; i++) {
		const struct ckpt_tensor *t = &c->m.tensor[c->m.place[i].tensor];
		const struct ckpt_piece *p = &t->piece[c->m.place[i].piece];
		uint64_t size = c->map[p->file].size;

		if (p->offset > size || p->bytes > size - p->offset)
			return err_set(e,
			    "%s/%s: truncated: %llu bytes, but tensor '%s' ends at byte %llu",
			    c->dir, c->m.file[p->file], (unsigned long long)size, t->name,
			    (unsigned long long)(p->offset + p->bytes));
	}
	return 0;
}

/*
 * Manifest, sizes and texts, in this order: cheap checks that are likely to fail come first. No
 * piece is read.
 */
static struct ckpt *
open_dir(const char *dir, bool edited, struct err *e)
{
	struct ckpt *c = mem_zalloc(1, sizeof *c);

	c->edited = edited;
	if (ckpt_find_dir(dir, c->dir, e) < 0 || load_manifest(c, e) < 0 || load_sizes(c, e) < 0 ||
	    load_text(c, MANIFEST_OPTIONS, &c->options, e) < 0 || load_state(c, e) < 0) {
		ckpt_close(c);
		return NULL;
	}
	return c;
}

struct ckpt *
ckpt_open(const char *dir, struct err *e)
{
	return open_dir(dir, false, e);
}

struct ckpt *
ckpt_open_edited(const char *dir, struct err *e)
{
	return open_dir(dir, true, e);
}

/* Also releases a checkpoint whose opening failed. */
void
ckpt_close(struct ckpt *c)
{
	if (!c)
		return;
	checker_free(c->checker);
	for (int i = 0; c->map && i < c->m.num_files; i++)
		map_close(&c->map[i]);
	free(c->map);
	free(c->checked);
	free(c->options);
	free(c->state_text);
	state_release(&c->state);
	manifest_release(&c->m);
	free(c);
}

/*
 * The directory with the manifest, which is not always the path that was opened. Lives as long as
 * c.
 */
const char *
ckpt_dir(const struct ckpt *c)
{
	return c->dir;
}

/* Tensors, with optimizer state; ckpt_at takes indices from 0 up to this. */
int
ckpt_count(const struct ckpt *c)
{
	return c->m.num_tensors;
}

/* By name in ascending order, as the manifest parser sorts them. i is not checked. */
const struct ckpt_tensor *
ckpt_at(const struct ckpt *c, int i)
{
	return &c->m.tensor[i];
}

/* A name against a tensor's, for bsearch. */
static int
compare_names(const void *a, const void *b)
{
	return strcmp(a, ((const struct ckpt_tensor *)b)->name);
}

/* Tensors are sorted by name. */
const struct ckpt_tensor *
ckpt_find(const struct ckpt *c, const char *name)
{
	return bsearch(
	    name, c->m.tensor, (size_t)c->m.num_tensors, sizeof *c->m.tensor, compare_names);
}

/* Files of pieces; texts do not count. */
int
ckpt_num_files(const struct ckpt *c)
{
	return c->m.num_files;
}

const struct run_state *
ckpt_state(const struct ckpt *c)
{
	return &c->state;
}

/* The file's text, with comments. */
const char *
ckpt_state_text(const struct ckpt *c)
{
	return c->state_text;
}

/* The file's text; model_from_text makes a model of it. */
const char *
ckpt_options_text(const struct ckpt *c)
{
	return c->options;
}

/* True since version 2. */
bool
ckpt_sealed(const struct ckpt *c)
{
	return c->m.version > 1;
}
