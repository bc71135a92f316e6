/* ckpt_tiles.c - property: any tiling of any tensors, written by any number of writers, reads back
 * equal in any box */
#include "lib/base/io.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/manifest.h"
#include "tests/check.h"
#include "tests/random_box.h"

enum { TENSORS = 5, WRITERS = 3, PIECES_MAX = 64, ELEMENTS_MAX = 9 * 9 * 9 * 9 };

static const enum dtype types[TENSORS] = { DTYPE_F32, DTYPE_BF16, DTYPE_F64, DTYPE_U8, DTYPE_F16 };

struct tensor {
	char name[40];
	enum dtype dtype;
	struct slice whole;
	int num_pieces;
	struct slice piece[PIECES_MAX];
	int writer[PIECES_MAX];
	unsigned char bytes[ELEMENTS_MAX * 8];
};

/* Divides one random piece, at a plane or at an element of its flat order. */
static void
cut(struct tensor *t)
{
	struct slice *s = &t->piece[between(0, t->num_pieces - 1)], old = *s, part[SLICE_FLAT_MAX];
	int d = (int)between(0, s->ndim - 1);
	int64_t total = slice_elements(s), at = between(0, total);

	if (between(0, 3) > 0) {
		if (s->count[d] < 2)
			return;
		s->count[d] = between(1, s->count[d] - 1);
		old.start[d] += s->count[d];
		old.count[d] -= s->count[d];
		t->piece[t->num_pieces++] = old;
		return;
	}
	*s = t->piece[--t->num_pieces];
	for (int half = 0; half < 2; half++) {
		int n = slice_flat(&old, half ? at : 0, half ? total - at : at, part);

		memcpy(&t->piece[t->num_pieces], part, (size_t)n * sizeof *part);
		t->num_pieces += n;
	}
}

/* Shape, tiling, owners and bytes of one tensor. */
static void
make_tensor(struct tensor *t, int i)
{
	int64_t shape[SLICE_DIMS];
	int ndim = (int)between(1, SLICE_DIMS);

	snprintf(t->name, sizeof t->name, "layers.%d.w@%d", i, i);
	t->dtype = types[i];
	for (int d = 0; d < ndim; d++)
		shape[d] = between(1, 9);
	t->whole = slice_whole(ndim, shape);
	t->num_pieces = 1;
	t->piece[0] = t->whole;
	for (int64_t n = between(0, 12); n > 0 && t->num_pieces + 2 * SLICE_FLAT_MAX < PIECES_MAX;
	     n--)
		cut(t);
	for (int k = 0; k < t->num_pieces; k++)
		t->writer[k] = (int)between(0, WRITERS - 1);
	for (int64_t k = 0; k < slice_elements(&t->whole); k++) {
		float x = (float)between(-100, 100);

		if (t->dtype == DTYPE_U8)
			t->bytes[k] = (unsigned char)x;
		else
			dtype_convert(t->bytes + (size_t)k * dtype_size(t->dtype), t->dtype, &x,
			    DTYPE_F32, 1);
	}
}

/* Writes the pieces of one writer. */
static int
write_file(const struct tensor *t, const char *tmp, int writer, struct str *lines, struct err *e)
{
	static unsigned char dense[ELEMENTS_MAX * 8];
	struct ckpt_writer *w = ckpt_writer_new(tmp, writer, e);
	int rc = w ? 0 : -1;

	for (int i = 0; w && i < TENSORS; i++)
		for (int k = 0; k < t[i].num_pieces; k++)
			if (t[i].writer[k] == writer)
				ckpt_declare(w, t[i].name, t[i].dtype, t[i].whole.ndim,
				    t[i].whole.count, &t[i].piece[k]);
	for (int i = 0; w && i < TENSORS; i++)
		for (int k = 0; k < t[i].num_pieces; k++) {
			if (t[i].writer[k] != writer)
				continue;
			slice_copy(dense, &t[i].piece[k], t[i].bytes, &t[i].whole, &t[i].piece[k],
			    dtype_size(t[i].dtype));
			rc |= ckpt_write(w, dense, e);
		}
	return w && ckpt_writer_finish(w, lines, e) == 0 ? rc : -1;
}

/* Saves all tensors under save. */
static int
save_all(const struct tensor *t, const char *save, struct err *e)
{
	struct ckpt_commit c = { .save = save,
		.iteration = 1,
		.options = "",
		.state = "iteration 1\nconsumed_train_samples 1\noptimizer_steps "
			 "1\nskipped_iterations 0\n" };
	struct str lines = { 0 };
	char tmp[IO_PATH];
	int rc = ckpt_begin(save, 1, tmp, e);

	for (int i = WRITERS - 1; i >= 0 && rc == 0; i--)
		rc = write_file(t, tmp, i, &lines, e);
	c.tmp = tmp;
	c.manifest = lines.buf;
	if (rc == 0)
		rc = ckpt_commit(&c, e);
	str_release(&lines);
	return rc;
}

/* Reads a random box of t, and compares. */
static bool
box_equal(struct ckpt *c, const struct tensor *t)
{
	static unsigned char want[ELEMENTS_MAX * 8], got[ELEMENTS_MAX * 8];
	struct slice slice = random_box(&t->whole);
	struct err e;

	slice_copy(want, &slice, t->bytes, &t->whole, &slice, dtype_size(t->dtype));
	return ckpt_read(c, t->name, &slice, got, &e) == 0 &&
	    !memcmp(got, want, (size_t)slice_elements(&slice) * dtype_size(t->dtype));
}

/* Moves one piece by one element, or makes it one longer or shorter: the result is not a tiling and
 * must be refused. */
static bool
refuses_shifted(const struct ckpt *c)
{
	const struct ckpt_tensor *t = ckpt_at(c, (int)between(0, ckpt_count(c) - 1));
	struct ckpt_piece piece[PIECES_MAX];
	int k = (int)between(0, t->num_pieces - 1), d = (int)between(0, t->ndim - 1),
	    by = between(0, 1) ? 1 : -1;
	struct slice *slice = &piece[k].slice;
	struct str s = { 0 };
	char file[40];
	struct manifest m;
	bool refused;
	struct err e;

	memcpy(piece, t->piece, (size_t)t->num_pieces * sizeof *piece);
	if (between(0, 1))
		slice->start[d] += by;
	else
		slice->count[d] += by;
	if (slice->count[d] == 0 || !slice_inside(slice, t->ndim, t->shape))
		return true;
	piece[k].bytes = (uint64_t)slice_elements(slice) * dtype_size(t->dtype);
	manifest_print_head(&s, MANIFEST_VERSION, (uint64_t[MANIFEST_TEXTS]){ 0 });
	for (int i = 0; i < t->num_pieces; i++) {
		snprintf(file, sizeof file, "pieces-%05d.safetensors", piece[i].file);
		manifest_print_piece(&s, t, &piece[i], file);
	}
	manifest_print_end(&s, MANIFEST_VERSION);
	refused = manifest_parse(&m, s.buf, s.len, "m", &e) < 0 &&
	    (strstr(e.msg, "overlap") || strstr(e.msg, "hole"));
	str_release(&s);
	return refused;
}

int
main(void)
{
	static struct tensor t[TENSORS];
	char save[] = "/tmp/ckpt_tiles.XXXXXX";
	struct err e = { "" };

	mt19937_seed(&rng, (uint32_t)check_seed());
	CHECK(mkdtemp(save) != NULL);
	for (int round = 0; round < 25; round++) {
		struct ckpt *c;
		bool good = true;

		for (int i = 0; i < TENSORS; i++)
			make_tensor(&t[i], i);
		CHECK(save_all(t, save, &e) == 0);
		c = ckpt_open(save, &e);
		CHECK_STR(e.msg, "");
		for (int i = 0; c && i < ckpt_num_files(c); i++)
			good &= ckpt_verify_file(c, i, &e) == 0;
		for (int i = 0; c && i < 100; i++)
			good &= box_equal(c, &t[i % TENSORS]) && refuses_shifted(c);
		CHECK(c && good);
		ckpt_close(c);
	}
	CHECK(io_remove_tree(save, &e) == 0);
	return check_done();
}
