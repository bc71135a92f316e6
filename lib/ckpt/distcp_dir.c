/* distcp_dir.c - reads what torch.distributed.checkpoint wrote into a directory */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"
#include "lib/ckpt/distcp_dir.h"

#include <stdlib.h>
#include <string.h>

/* A bound of what is read at once into memory; the metadata of a thousand ranks has megabytes. */
enum { METADATA_MAX = 1 << 30 };

/* Whether [offset, offset + bytes) lies in the file; what: its tensor or object. */
static int
check_place(const struct distcp_dir *dir, const char *what, int file, const uint64_t place[2],
    struct err *e)
{
	const struct map *m = &dir->map[file];

	if (place[0] <= m->size && place[1] <= m->size - place[0])
		return 0;
	return err_set(e,
	    "%s/%s: cut off: '%s' begins at %llu and has %llu bytes, the file has %llu", dir->path,
	    dir->d.file[file], what, (unsigned long long)place[0], (unsigned long long)place[1],
	    (unsigned long long)m->size);
}

static int
check_places(const struct distcp_dir *dir, struct err *e)
{
	const struct distcp *d = &dir->d;

	for (int i = 0; i < d->num_tensors; i++)
		for (int k = 0; k < d->tensor[i].num_pieces; k++) {
			const struct ckpt_piece *p = &d->tensor[i].piece[k];

			if (check_place(dir, d->tensor[i].name, p->file,
				(const uint64_t[]){ p->offset, p->bytes }, e) < 0)
				return -1;
		}
	for (int i = 0; i < d->num_objects; i++) {
		const struct distcp_object *o = &d->object[i];

		if (check_place(
			dir, o->name, o->file, (const uint64_t[]){ o->offset, o->bytes }, e) < 0)
			return -1;
	}
	return 0;
}

int
distcp_open(struct distcp_dir *dir, const char *path, struct err *e)
{
	char file[CKPT_PATH_BYTES], *bytes;
	size_t n;
	int rc;

	memset(dir, 0, sizeof *dir);
	snprintf(dir->path, sizeof dir->path, "%s", path);
	if (!ckpt_join(file, path, ".metadata"))
		return err_set(e, "path too long: '%.60s...'", path);
	if (io_read_regular(file, METADATA_MAX, &bytes, &n, e) < 0)
		return -1;
	dir->sum = hash_xxh3(bytes, n);
	rc = distcp_parse(&dir->d, bytes, n, file, e);
	free(bytes);
	if (rc < 0)
		return rc;
	dir->map = mem_zalloc((size_t)dir->d.num_files + 1, sizeof *dir->map);
	for (int i = 0; i < dir->d.num_files; i++) {
		if (!ckpt_join(file, dir->path, dir->d.file[i]))
			return err_set(e, "path too long: '%.60s...'", dir->path);
		if (map_open(&dir->map[i], file, e) < 0)
			return -1;
	}
	dir->first = mem_zalloc((size_t)dir->d.num_tensors + 1, sizeof *dir->first);
	for (int i = 0; i < dir->d.num_tensors; i++)
		dir->first[i + 1] = dir->first[i] + dir->d.tensor[i].num_pieces;
	dir->compared =
	    mem_zalloc((size_t)dir->first[dir->d.num_tensors] + 1, sizeof *dir->compared);
	return check_places(dir, e);
}

/* Forgets the chunk that was read last. */
static void
close_chunk(struct distcp_dir *dir)
{
	torchzip_close(dir->zip);
	if (dir->chunk)
		map_forget(&dir->map[dir->chunk->file]);
	dir->zip = NULL;
	dir->chunk = NULL;
}

void
distcp_close(struct distcp_dir *dir)
{
	close_chunk(dir);
	for (int i = 0; dir->map && i < dir->d.num_files; i++)
		map_close(&dir->map[i]);
	free(dir->map);
	free(dir->first);
	free(dir->compared);
	distcp_release(&dir->d);
}

/* The zip at a place of a file. */
static struct torchzip *
open_zip(const struct distcp_dir *dir, int file, const uint64_t place[2], struct err *e)
{
	char name[CKPT_PATH_BYTES];

	if (!ckpt_join(name, dir->path, dir->d.file[file]))
		BUG("the path of an open file is too long");
	return torchzip_open(dir->map[file].base + place[0], place[1], name, e);
}

/* Gives the tensor in the zip the shape of its chunk: some versions add dimensions of one element
 * at its front. -1 when it is another tensor. */
static int
fit(struct torch_tensor *t, const struct ckpt_piece *p)
{
	int extra = t->ndim - p->slice.ndim;

	if (t->ndim == 0 && slice_elements(&p->slice) == 1) {
		t->ndim = p->slice.ndim;
		for (int d = 0; d < t->ndim; d++)
			t->shape[d] = t->stride[d] = 1;
	}
	for (int d = 0; d < extra; d++)
		if (t->shape[d] != 1)
			return -1;
	if (extra > 0) {
		t->ndim = p->slice.ndim;
		memmove(t->shape, t->shape + extra, (size_t)t->ndim * sizeof *t->shape);
		memmove(t->stride, t->stride + extra, (size_t)t->ndim * sizeof *t->stride);
	}
	return t->ndim == p->slice.ndim &&
		!memcmp(t->shape, p->slice.count, (size_t)t->ndim * sizeof *t->shape)
	    ? 0
	    : -1;
}

/* Whether a chunk was compared with its checksum. */
static bool *
compared(const struct distcp_dir *dir, const struct ckpt_tensor *t, const struct ckpt_piece *p)
{
	return &dir->compared[dir->first[t - dir->d.tensor] + (p - t->piece)];
}

/* Its bytes are compared with their checksum once, though they may be opened many times. */
static int
open_chunk(
    struct distcp_dir *dir, const struct ckpt_tensor *t, const struct ckpt_piece *p, struct err *e)
{
	const struct pickle_value *root;
	bool *known = compared(dir, t, p);
	struct err why;

	if (dir->chunk == p)
		return 0;
	close_chunk(dir);
	dir->zip = open_zip(dir, p->file, (const uint64_t[]){ p->offset, p->bytes }, e);
	if (!dir->zip)
		return -1;
	root = torchzip_root(dir->zip);
	if (torchzip_tensor(dir->zip, root, &dir->tensor, &why) < 0)
		return err_set(
		    e, "%s/%s: tensor '%s': %s", dir->path, dir->d.file[p->file], t->name, why.msg);
	if (dir->tensor.dtype != t->dtype || fit(&dir->tensor, p) < 0)
		return err_set(e,
		    "%s/%s: tensor '%s': a chunk is not of the type and shape that "
		    ".metadata gives",
		    dir->path, dir->d.file[p->file], t->name);
	if (!*known && torchzip_verify(dir->zip, NULL, &why) < 0)
		return err_set(
		    e, "%s/%s: '%s': %s", dir->path, dir->d.file[p->file], t->name, why.msg);
	*known = true;
	dir->chunk = p;
	return 0;
}

/* Of each chunk, the part of the box that lies in it. */
int
distcp_read(struct distcp_dir *dir, const struct ckpt_tensor *t, const struct slice *slice,
    void *dst, struct err *e)
{
	for (int k = 0; k < t->num_pieces; k++) {
		const struct ckpt_piece *p = &t->piece[k];
		struct slice part, local;
		size_t size;
		void *bytes;

		if (!slice_intersect(&p->slice, slice, &part))
			continue;
		if (open_chunk(dir, t, p, e) < 0)
			return -1;
		local = part;
		for (int d = 0; d < local.ndim; d++)
			local.start[d] -= p->slice.start[d];
		size = dtype_size(dir->tensor.dtype);
		bytes = mem_alloc((size_t)slice_elements(&part), size);
		torch_tensor_read(&dir->tensor, &local, bytes);
		slice_copy(dst, slice, bytes, &part, &part, size);
		free(bytes);
	}
	return 0;
}

struct torchzip *
distcp_load(const struct distcp_dir *dir, const struct distcp_object *o, struct err *e)
{
	return open_zip(dir, o->file, (const uint64_t[]){ o->offset, o->bytes }, e);
}

/* Compares the zip of a tensor's chunk, or an object, with its own sums. Returns 1 when they
 * differ. */
static int
verify_place(const struct distcp_dir *dir, const struct distcp_object *o, struct str *problems)
{
	struct err e, why;
	struct torchzip *z = distcp_load(dir, o, &e);
	int wrong = !z || torchzip_verify(z, &dir->map[o->file], &why) < 0;

	if (z && wrong)
		err_set(&e, "%s/%s: '%s': %s", dir->path, dir->d.file[o->file], o->name, why.msg);
	torchzip_close(z);
	map_forget(&dir->map[o->file]);
	if (wrong)
		str_addf(problems, "%s\n", e.msg);
	return wrong;
}

int
distcp_verify(const struct distcp_dir *dir, struct str *problems)
{
	const struct distcp *d = &dir->d;
	int wrong = 0;

	for (int i = 0; i < d->num_tensors; i++)
		for (int k = 0; k < d->tensor[i].num_pieces; k++) {
			const struct ckpt_piece *p = &d->tensor[i].piece[k];
			const struct distcp_object o = { d->tensor[i].name, p->file, p->offset,
				p->bytes };

			wrong += verify_place(dir, &o, problems);
		}
	for (int i = 0; i < d->num_objects; i++)
		wrong += verify_place(dir, &d->object[i], problems);
	return wrong;
}

int
distcp_check_share(struct distcp_dir *dir, int rank, int num_ranks, struct err *e)
{
	const struct distcp *d = &dir->d;
	struct str problems = { 0 };
	int64_t turn = 0;
	int wrong = 0;

	for (int i = 0; i < d->num_tensors && !wrong; i++)
		for (int k = 0; k < d->tensor[i].num_pieces && !wrong; k++) {
			const struct ckpt_piece *p = &d->tensor[i].piece[k];
			const struct distcp_object o = { d->tensor[i].name, p->file, p->offset,
				p->bytes };

			*compared(dir, &d->tensor[i], p) = true;
			if (turn++ % num_ranks == rank)
				wrong = verify_place(dir, &o, &problems);
		}
	if (wrong)
		err_set(e, "%.*s", (int)problems.len - 1, problems.buf);
	str_release(&problems);
	return wrong ? -1 : 0;
}
