/*
 * ckpt.c - the reader of checkpoints: opening with every check, boxes out of pieces, sums
 *
 * A checkpoint is a directory: manifest.tsv says which box of which tensor lies where, options.conf
 * and state.conf belong to the run, and the pieces are in safetensors files. Opening proves by the
 * manifest and the sizes of the files that every element of every tensor can be read; after that a
 * read is an overlap of boxes and a copy out of a mapped file, in whatever layout the reader has.
 * The sums are compared only on demand, since that costs a pass over all bytes. The format is
 * described in mckpt(5).
 */
#include "lib/format/ckpt.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/map.h"
#include "lib/format/manifest.h"
#include "lib/format/safetensors.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { PATH_BYTES = 1400, CONVERT_CHUNK = 65536 };

/* Larger texts than these are no manifest (a line is about 100 bytes) and no options. */
static const size_t manifest_max = (size_t)1 << 30, text_max = (size_t)1 << 24;

/* A line of state.conf; both strings point into state_cut. */
struct pair {
	const char *key, *value;
};

/*
 * An open checkpoint. The maps are filled by reads of a const one, so one thread at a time may
 * read.
 */
struct ckpt {
	char dir[1024];
	struct manifest m;
	struct map *map;                /* one a file; size is known from opening, base from the first use */
	char *options, *state;
	char *state_cut;                /* the same text, cut into pairs */
	struct pair *pair;
	int num_pairs;
};

/* dir/name; false when it does not fit. */
static bool
join(char out[PATH_BYTES], const char *dir, const char *name)
{
	return snprintf(out, PATH_BYTES, "%s/%s", dir, name) < PATH_BYTES;
}

/*
 * True when dir holds an entry whose name begins and ends so; neither part may overlap the other. A
 * directory that cannot be read holds none.
 */
static bool
has_entry(const char *dir, const char *prefix, const char *suffix)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	bool found = false;

	while (d && !found && (de = readdir(d))) {
		size_t n = strlen(de->d_name), p = strlen(prefix), s = strlen(suffix);

		found = n >= p + s && !strncmp(de->d_name, prefix, p) &&
		    !strcmp(de->d_name + n - s, suffix);
	}
	if (d)
		closedir(d);
	return found;
}

/*
 * Says what a directory without a manifest is, by the names in it: a wrong path is the usual
 * mistake, and the most useful reason is what stands there instead. Returns -1.
 */
static int
refuse(const char *dir, struct err *e)
{
	if (has_entry(dir, "mp_rank_", "") || has_entry(dir, "__", ".distcp"))
		return err_set(
		    e, "'%s' is a Megatron-LM checkpoint, a format that is not read yet", dir);
	if (has_entry(dir, "config.json", "") || has_entry(dir, "model", ".safetensors") ||
	    has_entry(dir, "pytorch_model", ".bin"))
		return err_set(e, "'%s' is a Hugging Face model: mckpt import reads it", dir);
	if (has_entry(dir, "pieces-", ".safetensors"))
		return err_set(e, "'%s' has no manifest.tsv: an incomplete checkpoint", dir);
	if (ckpt_has_iterations(dir))
		return err_set(e,
		    "'%s' has iter_* directories but no latest_checkpointed_iteration.txt: name "
		    "one of them",
		    dir);
	return err_set(e, "no checkpoint in '%s'", dir);
}

/* Any such name counts, whether or not it is a checkpoint. */
bool
ckpt_has_iterations(const char *save)
{
	return has_entry(save, "iter_", "");
}

/* Megatron-LM's form: at least seven digits. */
void
ckpt_iter_dir(const char *save, int64_t iteration, char out[1024])
{
	if (snprintf(out, 1024, "%s/iter_%07lld", save, (long long)iteration) >= 1024)
		out[0] = '\0';
}

/*
 * The number in the text of a tracker, without the blanks around it. 18 digits always fit 63 bits.
 * Returns 1, as a tracker that is there and sound.
 */
static int
parse_tracker(const char *path, char *text, int64_t *iteration, struct err *e)
{
	size_t n = strlen(text), skip = strspn(text, " \t\r\n");

	while (n > skip && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
	text += skip;
	n -= n > skip ? skip : n;
	if (!strcmp(text, "release"))
		return err_at(
		    e, path, 0, "names a release of Megatron-LM, a format that is not read yet");
	if (n == 0 || n > 18 || strspn(text, "0123456789") != n)
		return err_at(e, path, 0, "not the number of an iteration: '%.40s'", text);
	*iteration = strtoll(text, NULL, 10);
	return 1;
}

/* The file is small by nature; what is larger than 4096 bytes is refused. */
int
ckpt_tracker(const char *save, int64_t *iteration, struct err *e)
{
	char path[PATH_BYTES], *text;
	int rc;

	if (!join(path, save, "latest_checkpointed_iteration.txt"))
		return err_set(e, "path too long: '%.60s...'", save);
	if (!io_exists(path))
		return 0;
	if (io_read_file(path, 4096, &text, NULL, e) < 0)
		return -1;
	rc = parse_tracker(path, text, iteration, e);
	free(text);
	return rc;
}

/* True when dir holds a manifest. */
static bool
has_manifest(const char *dir)
{
	char path[PATH_BYTES];

	return join(path, dir, "manifest.tsv") && io_exists(path);
}

/*
 * The iter_* directory that dir means: dir itself when it has a manifest, else the one that its
 * tracker names. An iteration beside the tracker is never guessed at: it may be one whose saving
 * was cut off.
 */
static int
find_dir(const char *dir, char out[1024], struct err *e)
{
	struct stat st;
	int64_t iteration;
	int rc;

	if (stat(dir, &st) < 0)
		return err_sys(e, "open", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(e, "cannot open '%s': not a directory", dir);
	if (strlen(dir) >= 1000)
		return err_set(e, "path too long: '%.60s...'", dir);
	snprintf(out, 1024, "%s", dir);
	if (has_manifest(dir))
		return 0;
	rc = ckpt_tracker(dir, &iteration, e);
	if (rc <= 0)
		return rc < 0 ? rc : refuse(dir, e);
	ckpt_iter_dir(dir, iteration, out);
	if (!io_is_dir(out))
		return err_set(
		    e, "'%s' is missing, though latest_checkpointed_iteration.txt names it", out);
	return has_manifest(out) ? 0 : refuse(out, e);
}

/*
 * Reads a text file of the checkpoint; max keeps a wrong file from filling the memory. The caller
 * frees it.
 */
static int
read_text(
    const struct ckpt *c, const char *name, size_t max, char **out, size_t *len, struct err *e)
{
	char path[PATH_BYTES];

	join(path, c->dir, name);
	return io_read_file(path, max, out, len, e);
}

/* Reads and checks manifest.tsv. */
static int
load_manifest(struct ckpt *c, struct err *e)
{
	char path[PATH_BYTES], *text;
	size_t len;
	int rc;

	if (read_text(c, "manifest.tsv", manifest_max, &text, &len, e) < 0)
		return -1;
	join(path, c->dir, "manifest.tsv");
	rc = manifest_parse(&c->m, text, len, path, e);
	free(text);
	return rc;
}

/* By key. */
static int
compare_pairs(const void *a, const void *b)
{
	return strcmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

/* One line of state.conf: a key, blanks, the value to the end of the line; '#' starts a comment
 * line. */
static int
add_pair(struct ckpt *c, char *line)
{
	size_t n = strcspn(line, " \t");

	if (*line == '\0' || *line == '#')
		return 0;
	if (n == 0 || line[n] == '\0')
		return -1;
	line[n++] = '\0';
	c->pair[c->num_pairs++] = (struct pair){ line, line + n + strspn(line + n, " \t") };
	return 0;
}

/*
 * Cuts state.conf into pairs, sorted by key for the look-up. The uncut text is kept as well,
 * because tools copy it to another checkpoint unchanged. A key twice would make the answer depend
 * on the sort, so it is refused.
 */
static int
load_state(struct ckpt *c, struct err *e)
{
	char path[PATH_BYTES];
	size_t len, lines = 1;
	long line = 1;

	if (read_text(c, "state.conf", text_max, &c->state, &len, e) < 0)
		return -1;
	join(path, c->dir, "state.conf");
	for (size_t i = 0; i < len; i++)
		lines += c->state[i] == '\n';
	c->state_cut = mem_strdup(c->state);
	c->pair = mem_alloc(lines, sizeof *c->pair);
	for (char *s = c->state_cut, *next; s; s = next, line++) {
		next = strchr(s, '\n');
		if (next)
			*next++ = '\0';
		if (add_pair(c, s) < 0)
			return err_at(e, path, line, "not a key and a value: '%.60s'", s);
	}
	qsort(c->pair, (size_t)c->num_pairs, sizeof *c->pair, compare_pairs);
	for (int i = 1; i < c->num_pairs; i++)
		if (!compare_pairs(&c->pair[i - 1], &c->pair[i]))
			return err_at(e, path, 0, "'%.60s' twice", c->pair[i].key);
	return 0;
}

/*
 * Looks at the size of every file; mapping waits for the first read, since a rank needs few of the
 * files of a large checkpoint.
 */
static int
load_sizes(struct ckpt *c, struct err *e)
{
	c->map = mem_zalloc((size_t)c->m.num_files, sizeof *c->map);
	for (int i = 0; i < c->m.num_files; i++) {
		char path[PATH_BYTES];
		struct stat st;

		join(path, c->dir, c->m.file[i]);
		if (stat(path, &st) < 0)
			return err_sys(e, "open", path);
		if (!S_ISREG(st.st_mode))
			return err_set(e, "cannot open '%s': not a regular file", path);
		c->map[i].size = (uint64_t)st.st_size;
	}
	return 0;
}

/*
 * Every piece must lie inside its file, written with a difference, as the sum of offset and bytes
 * may overflow. After this, reads trust the offsets.
 */
static int
check_sizes(const struct ckpt *c, struct err *e)
{
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
 * Manifest, sizes and texts, in this order: what is cheap to check and likely to be wrong comes first. No piece is read;
 * that is what verifying is for.
 */
struct ckpt *
ckpt_open(const char *dir, struct err *e)
{
	struct ckpt *c = mem_zalloc(1, sizeof *c);

	if (find_dir(dir, c->dir, e) < 0 || load_manifest(c, e) < 0 || load_sizes(c, e) < 0 ||
	    check_sizes(c, e) < 0 ||
	    read_text(c, "options.conf", text_max, &c->options, NULL, e) < 0 ||
	    load_state(c, e) < 0) {
		ckpt_close(c);
		return NULL;
	}
	return c;
}

/* Takes what a failed opening left, too. */
void
ckpt_close(struct ckpt *c)
{
	if (!c)
		return;
	for (int i = 0; c->map && i < c->m.num_files; i++)
		map_close(&c->map[i]);
	free(c->map);
	free(c->options);
	free(c->state);
	free(c->state_cut);
	free(c->pair);
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

/* Tensors, optimizer state included; indices of ckpt_at run from 0 to this. */
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

/* Files that hold pieces; the texts beside them do not count. */
int
ckpt_num_files(const struct ckpt *c)
{
	return c->m.num_files;
}

/* A name inside the directory, without any path in it: the manifest parser makes sure. */
const char *
ckpt_file(const struct ckpt *c, int i)
{
	return c->m.file[i];
}

/* Pairs are sorted by key. */
const char *
ckpt_state(const struct ckpt *c, const char *key)
{
	const struct pair want = { key, NULL };
	const struct pair *hit =
	    bsearch(&want, c->pair, (size_t)c->num_pairs, sizeof *c->pair, compare_pairs);

	return hit ? hit->value : NULL;
}

/* As it stands in the file, comments included. */
const char *
ckpt_state_text(const struct ckpt *c)
{
	return c->state;
}

/* As it stands in the file; model_from_text makes a model of it. */
const char *
ckpt_options_text(const struct ckpt *c)
{
	return c->options;
}

/*
 * The bytes of one file, mapped when first asked for and kept mapped; NULL with a reason. A size
 * that is not the one seen on opening means that somebody writes to the checkpoint, and then no
 * offset can be trusted.
 */
static const unsigned char *
file_bytes(const struct ckpt *c, int file, struct err *e)
{
	struct map *m = &c->map[file];
	uint64_t size = m->size;
	char path[PATH_BYTES];

	if (m->base)
		return m->base;
	join(path, c->dir, c->m.file[file]);
	if (map_open(m, path, e) < 0) {
		m->size = size;
		return NULL;
	}
	if (m->size != size) {
		map_close(m);
		m->size = size;
		err_set(e, "%s: its size changed while the checkpoint was open", path);
		return NULL;
	}
	return m->base;
}

/* One piece's part of a read. */
struct part {
	void *dst;
	const void *src;
	const struct slice *dst_box, *src_box;
	enum dtype dst_type, src_type;
};

/* Copies box from one array to the other, converting a bounded number of elements at a time. */
static void
copy_part(const struct part *p, const struct slice *box)
{
	size_t to = dtype_size(p->dst_type), from = dtype_size(p->src_type);
	int64_t total = slice_elements(box);
	char *a, *b;

	if (p->dst_type == p->src_type) {
		slice_copy(p->dst, p->dst_box, p->src, p->src_box, box, to);
		return;
	}
	a = mem_alloc(CONVERT_CHUNK, from);
	b = mem_alloc(CONVERT_CHUNK, to);
	for (int64_t at = 0; at < total; at += CONVERT_CHUNK) {
		struct slice run[SLICE_FLAT_MAX];
		int n = slice_flat(
		    box, at, total - at < CONVERT_CHUNK ? total - at : CONVERT_CHUNK, run);

		for (int i = 0; i < n; i++) {
			slice_copy(a, &run[i], p->src, p->src_box, &run[i], from);
			dtype_convert(b, p->dst_type, a, p->src_type, slice_elements(&run[i]));
			slice_copy(p->dst, p->dst_box, b, &run[i], &run[i], to);
		}
	}
	free(a);
	free(b);
}

/*
 * What is asked for must be there, and convertible: floats into floats, anything into itself. These
 * come from users (a wrong model, a wrong layout), so they are errors and not bugs.
 */
static int
check_read(const struct ckpt *c, const char *name, const struct slice *want, enum dtype dtype,
    struct err *e)
{
	const struct ckpt_tensor *t = ckpt_find(c, name);

	if (!t)
		return err_at(e, c->dir, 0, "no tensor '%s'", name);
	if (want->ndim != t->ndim)
		return err_at(e, c->dir, 0, "tensor '%s' has %d dimensions, not %d", name, t->ndim,
		    want->ndim);
	if (!slice_inside(want, t->ndim, t->shape)) {
		struct str s = { 0 };

		manifest_print_list(&s, t->ndim, t->shape);
		err_at(e, c->dir, 0,
		    "tensor '%s' of shape %s does not hold the part that is asked for", name,
		    s.buf);
		str_release(&s);
		return -1;
	}
	if (t->dtype != dtype && !(dtype_is_float(t->dtype) && dtype_is_float(dtype)))
		return err_at(e, c->dir, 0, "tensor '%s' is %s and cannot be read as %s", name,
		    dtype_name(t->dtype), dtype_name(dtype));
	return 0;
}

/*
 * Pieces tile the tensor, so copying each piece's overlap with what is wanted writes every element of dst once. The bytes are
 * read through the map; memory is dst and, when converting, two small buffers.
 */
int
ckpt_read(const struct ckpt *c, const char *name, const struct slice *want, enum dtype dtype,
    void *dst, struct err *e)
{
	const struct ckpt_tensor *t = ckpt_find(c, name);

	if (check_read(c, name, want, dtype, e) < 0)
		return -1;
	for (int i = 0; i < t->num_pieces; i++) {
		const struct ckpt_piece *p = &t->piece[i];
		const unsigned char *bytes;
		struct part part = { dst, NULL, want, &p->box, dtype, t->dtype };
		struct slice common;

		if (!slice_intersect(want, &p->box, &common))
			continue;
		bytes = file_bytes(c, p->file, e);
		if (!bytes)
			return -1;
		part.src = bytes + p->offset;
		copy_part(&part, &common);
	}
	return 0;
}

/*
 * The entry of a pieces file that is the manifest's piece, or NULL when the two disagree about
 * place, type or shape. Names are TENSOR@START, as the writer makes them.
 */
static const struct safetensors_entry *
find_entry(const struct safetensors *s, const struct ckpt_tensor *t, const struct ckpt_piece *p)
{
	struct str name = { 0 };
	const struct safetensors_entry *entry;

	str_addf(&name, "%s@", t->name);
	manifest_print_list(&name, t->ndim, p->box.start);
	entry = safetensors_find(s, name.buf);
	str_release(&name);
	if (!entry || entry->offset != p->offset || entry->dtype != t->dtype ||
	    entry->ndim != t->ndim)
		return NULL;
	return memcmp(entry->shape, p->box.count, (size_t)t->ndim * sizeof *entry->shape) ? NULL
											  : entry;
}

/*
 * Compares the pieces of the file with its header and their bytes with the sums; at the end the
 * counts, so that a tensor that the manifest does not know is found too.
 */
static int
verify_pieces(const struct ckpt *c, int file, const struct safetensors *s, struct err *e)
{
	int first = c->m.first[file], end = c->m.first[file + 1];

	for (int i = first; i < end; i++) {
		const struct ckpt_tensor *t = &c->m.tensor[c->m.place[i].tensor];
		const struct safetensors_entry *entry =
		    find_entry(s, t, &t->piece[c->m.place[i].piece]);

		if (!entry)
			return err_set(e,
			    "%s/%s: its header disagrees with the manifest about tensor '%s'",
			    c->dir, c->m.file[file], t->name);
		if (hash_xxh3(entry->data, entry->bytes) != t->piece[c->m.place[i].piece].sum)
			return err_set(e,
			    "%s/%s: the bytes of tensor '%s' are damaged: wrong checksum", c->dir,
			    c->m.file[file], t->name);
	}
	if (safetensors_count(s) != end - first)
		return err_set(e, "%s/%s: holds %d tensors, the manifest names %d", c->dir,
		    c->m.file[file], safetensors_count(s), end - first);
	return 0;
}

/*
 * Three witnesses must agree: the header of the file, the manifest, and the bytes. Opening the file checks the header by
 * itself, including that nothing follows the last tensor.
 */
int
ckpt_verify_file(const struct ckpt *c, int file, struct err *e)
{
	char path[PATH_BYTES];
	struct safetensors *s;
	int rc;

	join(path, c->dir, c->m.file[file]);
	s = safetensors_open(path, e);
	if (!s)
		return -1;
	rc = verify_pieces(c, file, s, e);
	safetensors_close(s);
	return rc;
}
