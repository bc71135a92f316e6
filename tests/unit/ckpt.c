/* ckpt.c - tests of lib/ckpt/ckpt: what is written is read back, damage is reported, an interrupted
 * save loses nothing */
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/outfile.h"
#include "lib/ckpt/ckpt.h"
#include "lib/ckpt/manifest.h"
#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 4, COLS = 6 };

static void
ignore(const char *line)
{
	(void)line;
}

static char top[] = "/tmp/ckpt.XXXXXX";
static const int64_t shape[2] = { ROWS, COLS };

/* Writes one pieces file: rows [first, first + rows) of tensor w, each element base + its flat
 * index, and w.exp_avg. */
static int
write_rows(const char *tmp, int number, int64_t first, int64_t rows, float base, struct str *lines,
    struct err *e)
{
	struct slice slice = { 2, { first, 0 }, { rows, COLS } };
	struct ckpt_writer *w = ckpt_writer_new(tmp, number, e);
	float x[ROWS * COLS];

	if (!w)
		return -1;
	for (int64_t i = 0; i < rows * COLS; i++)
		x[i] = base + (float)(first * COLS + i);
	ckpt_declare(w, "w", DTYPE_F32, 2, shape, &slice);
	ckpt_declare(w, "w.exp_avg", DTYPE_F32, 2, shape, &slice);
	if (ckpt_write(w, x, e) < 0 || ckpt_write(w, x, e) < 0) {
		ckpt_writer_abort(w);
		return -1;
	}
	return ckpt_writer_finish(w, lines, e);
}

/* The state.conf of an iteration. */
static char *
state_of(int64_t iteration)
{
	struct str s = { 0 };

	str_addf(&s,
	    "# of the run\niteration %lld\nconsumed_train_samples  %lld\noptimizer_steps %lld\n"
	    "skipped_iterations 0\nschedule two words\n",
	    (long long)iteration, 8 * (long long)iteration, (long long)iteration);
	return s.buf;
}

/* Saves one iteration with two writers and an idle one. */
static int
save_one(const char *save, int64_t iteration, float base, struct err *e)
{
	char *state = state_of(iteration);
	struct ckpt_commit c = {
		.save = save, .iteration = iteration, .options = "lr 0.1\n", .state = state
	};
	struct str lines = { 0 };
	char tmp[IO_PATH];
	struct ckpt_writer *idle;
	int rc = -1;

	if (ckpt_begin(save, iteration, tmp, e) == 0 &&
	    write_rows(tmp, 1, 3, 1, base, &lines, e) == 0 &&
	    write_rows(tmp, 0, 0, 3, base, &lines, e) == 0 && (idle = ckpt_writer_new(tmp, 2, e)) &&
	    ckpt_writer_finish(idle, &lines, e) == 0) {
		c.tmp = tmp;
		c.manifest = lines.buf;
		rc = ckpt_commit(&c, e);
	}
	str_release(&lines);
	free(state);
	return rc;
}

/* The first element of w in the checkpoint that dir refers to, or -1. */
static float
first_element(const char *dir)
{
	struct err e = { "" };
	struct ckpt *c = ckpt_open(dir, &e);
	struct slice one = { 2, { 0, 0 }, { 1, 1 } };
	float x = -1;

	if (!c || ckpt_read(c, "w", &one, &x, &e) < 0)
		fprintf(stderr, "%s\n", e.msg);
	ckpt_close(c);
	return x;
}

static void
test_round_trip(const char *save)
{
	struct err e = { "" };
	struct ckpt *c;
	struct slice slice = { 2, { 2, 1 }, { 2, 3 } };
	float x[6];
	int64_t iteration;
	bool good = true;

	CHECK(ckpt_tracker(save, &iteration, &e) == 0);
	CHECK(save_one(save, 5, 100, &e) == 0);
	CHECK_STR(e.msg, "");
	CHECK(ckpt_tracker(save, &iteration, &e) == 1 && iteration == 5);
	c = ckpt_open(save, &e);
	CHECK(c && ckpt_count(c) == 2 && ckpt_num_files(c) == 2);
	CHECK(strstr(ckpt_dir(c), "/iter_0000005"));
	CHECK_STR(ckpt_at(c, 1)->name, "w.exp_avg");
	CHECK(ckpt_find(c, "w") == ckpt_at(c, 0) && !ckpt_find(c, "v") &&
	    ckpt_find(c, "w")->num_pieces == 2);
	CHECK(ckpt_state(c)->iteration == 5 && ckpt_state(c)->consumed_train_samples == 40);
	CHECK_STR(ckpt_state(c)->schedule, "two words");
	CHECK(ckpt_state(c)->seed == STATE_NONE && !ckpt_state(c)->dtype &&
	    isnan(ckpt_state(c)->loss_scale));
	CHECK_STR(ckpt_options_text(c), "lr 0.1\n");
	CHECK(!strncmp(ckpt_state_text(c), "# of the run\niteration 5\n", 25));
	CHECK(ckpt_read(c, "w", &slice, x, &e) == 0);
	for (int i = 0; i < 6; i++) {
		float want = 100 + (float)((2 + i / 3) * COLS + 1 + i % 3);

		good &= x[i] == want;
	}
	CHECK(good);
	CHECK(ckpt_verify_file(c, 0, &e) == 0 && ckpt_verify_file(c, 1, &e) == 0);
	ckpt_close(c);
}

static void
test_bad_reads(const char *save)
{
	struct err e;
	struct ckpt *c = ckpt_open(save, &e);
	struct slice slice = { 2, { 2, 1 }, { 3, 3 } }, flat = { 1, { 0 }, { 1 } },
		     none = { 2, { 4, 6 }, { 0, 0 } };
	float x[9];

	CHECK(ckpt_read(c, "v", &slice, x, &e) < 0 && strstr(e.msg, "iter_0000005: no tensor 'v'"));
	CHECK(ckpt_read(c, "w", &slice, x, &e) < 0 &&
	    strstr(e.msg, "tensor 'w' of shape 4,6 does not contain"));
	CHECK(ckpt_read(c, "w", &flat, x, &e) < 0 &&
	    strstr(e.msg, "tensor 'w' has 2 dimensions, not 1"));
	slice.count[0] = 1;
	CHECK(ckpt_read(c, "w", &none, x, &e) == 0);
	ckpt_close(c);
}

/* Reads a text file of a checkpoint; returns its length. */
static size_t
slurp(const char *dir, const char *name, char **out)
{
	char path[IO_PATH + 100];
	size_t len = 0;
	struct err e;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	CHECK(io_read_file(path, 0, out, &len, &e) == 0);
	return len;
}

/* Writes a text file of a checkpoint. */
static void
put(const char *dir, const char *name, const char *text, size_t len)
{
	char path[IO_PATH + 100];
	struct err e;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	CHECK(outfile_write(path, text, len, &e) == 0);
}

/* Appends a manifest's own checksum to it, in versions that have one. */
static void
seal(struct str *manifest)
{
	size_t last = manifest->len - 1;

	if (strncmp(manifest->buf, "# mikoshi checkpoint 2\n", 23))
		return;
	while (last > 0 && manifest->buf[last - 1] != '\n')
		last--;
	manifest->len = last;
	manifest_print_end(manifest, 2);
}

/* Replaces the first `from` in a file by `to`; an empty `to` removes it. */
static void
edit(const char *dir, const char *name, const char *from, const char *to)
{
	char *text, *at;
	struct str s = { 0 };

	slurp(dir, name, &text);
	at = strstr(text, from);
	CHECK(at != NULL);
	if (at) {
		str_add(&s, text, (size_t)(at - text));
		str_adds(&s, to);
		str_adds(&s, at + strlen(from));
		if (!strcmp(name, "manifest.tsv"))
			seal(&s);
		put(dir, name, s.buf, s.len);
	}
	str_release(&s);
	free(text);
}

/* Each kind of damage to the manifest or the texts, and the reason for refusing it. */
static const struct {
	const char *file, *from, *to, *reason;
} damages[] = {
	{ "manifest.tsv", "checkpoint 2", "checkpoint 3",
	    "manifest.tsv:1: not the head of a checkpoint manifest of version 1 or 2" },
	{ "manifest.tsv", "# state.conf ", "# start.conf ",
	    "manifest.tsv:3: not the checksum of state.conf" },
	{ "manifest.tsv", "dtype\tshape", "shape\tdtype",
	    "manifest.tsv:4: not the names of the columns" },
	{ "options.conf", "lr 0.1", "lr 0.2",
	    "options.conf: changed after it was saved: wrong checksum" },
	{ "state.conf", "samples  40", "samples  48",
	    "state.conf: changed after it was saved: wrong checksum" },
	{ "manifest.tsv", "w\tF32", "w\tF33", "manifest.tsv:5: tensor 'w': unknown dtype 'F33'" },
	{ "manifest.tsv", "w\tF32", "w\tfloat32", "unknown dtype 'float32'" },
	{ "manifest.tsv", "w\tF32", "w\tBF16", "bytes '72': must be 36 by count and dtype" },
	{ "manifest.tsv", "w\tF32", "\tF32", "not the name of a tensor" },
	{ "manifest.tsv", "w\tF32", "F32", "manifest.tsv:5: 8 columns instead of 9" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "4,6\t0,0\t3,6,1",
	    "start and count must be 2 numbers each" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "4,6\t2,0\t3,6", "the piece reaches outside the shape" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "4,0\t0,0\t3,6", "impossible shape" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "9223372036854775807,6\t0,0\t3,6", "impossible shape" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "4,6\t0,0\t0,6", "an empty piece" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "4,-6\t0,0\t3,6", "shape must be 1 to 4 numbers" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "1,1,1,4,6\t0,0\t3,6", "shape must be 1 to 4 numbers" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "5,6\t0,0\t3,6",
	    "dtype or shape differ from its other pieces" },
	{ "manifest.tsv", "4,6\t0,0\t3,6", "4,6\t1,0\t3,6",
	    "tensor 'w': pieces overlap, and leave a hole elsewhere" },
	{ "manifest.tsv", "3,6\tpieces-00000.safetensors\t", "3,6\t../pieces-00000.safetensors\t",
	    "not a plain file name" },
	{ "manifest.tsv", "3,6\tpieces-00000.safetensors\t", "3,6\tpieces-00007.safetensors\t",
	    "cannot open" },
	{ "manifest.tsv", "3,6\tpieces-00000.safetensors\t", "3,6\tpieces-00000.safetensors\t99",
	    "truncated" },
	{ "manifest.tsv", "3,6\tpieces-00000.safetensors\t", "3,6\tpieces-00000.safetensors\t+",
	    "not a number" },
	{ "manifest.tsv", "\t72\t", "\t071\t", "bytes '071'" },
	{ "manifest.tsv", "\t72\t", "\t72\tg", "must be 16 hexadecimal digits for each 4 MiB" },
	{ "manifest.tsv", "\t72\t", "\t72\t0123456789abcdef,",
	    "must be 16 hexadecimal digits for each 4 MiB" },
	{ "manifest.tsv", "w.exp_avg", "w.exp\177avg", "not the name of a tensor" },
	{ "manifest.tsv", "w.exp_avg", "\377", "invalid UTF-8 at byte" },
	{ "manifest.tsv", "w.exp_avg", "w.exp_avf", "a hole: 6 elements are in no piece" },
};

static void
test_damaged_texts(const char *dir)
{
	for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
		char *text;
		struct err e = { "" };
		struct ckpt *c;

		slurp(dir, damages[i].file, &text);
		edit(dir, damages[i].file, damages[i].from, damages[i].to);
		c = ckpt_open(dir, &e);
		CHECK(c == NULL);
		if (!strstr(e.msg, damages[i].reason))
			CHECK_STR(e.msg, damages[i].reason);
		ckpt_close(c);
		put(dir, damages[i].file, text, strlen(text));
		free(text);
	}
	CHECK(first_element(dir) == 100);
}

/* Checks that the text parses, or fails with this reason. */
static void
parses(const char *text, size_t len, const char *reason)
{
	struct manifest m;
	struct err e = { "" };

	if (manifest_parse(&m, text, len, "m", &e) == 0)
		manifest_release(&m);
	CHECK_STR(e.msg, reason);
}

/* Lines removed, repeated, truncated, changed, or pointing to the same bytes. */
static void
test_damaged_lines(const char *dir)
{
	char *text;
	size_t len = slurp(dir, "manifest.tsv", &text), end = len - 1, last;
	struct str s = { 0 };
	struct manifest m;
	struct err e;

	while (text[end - 1] != '\n')
		end--;
	for (last = end - 1; text[last - 1] != '\n';)
		last--;
	CHECK(manifest_parse(&m, text, len, "m", &e) == 0);
	manifest_print(&m, &s);
	CHECK_STR(s.buf, text);
	manifest_release(&m);
	parses(text, len - 1, "m: the last line is cut off");
	parses(text, end, "m: cut off: the last line is not its own checksum");
	s.buf[last]++;
	parses(s.buf, s.len, "m: damaged: wrong checksum");
	s.buf[last]--;
	s.len = last;
	manifest_print_end(&s, 2);
	parses(s.buf, s.len, "m: tensor 'w.exp_avg': a hole: 6 elements are in no piece");
	s.len = 0;
	str_add(&s, text, end);
	str_add(&s, text + last, end - last);
	manifest_print_end(&s, 2);
	parses(s.buf, s.len, "m: tensor 'w.exp_avg': pieces overlap");
	str_release(&s);
	free(text);
}

/* Manifests of versions without checksums of blocks and of texts are read, and printed unchanged.
 */
static void
test_version_1(void)
{
	struct str s = { 0 }, again = { 0 };
	struct manifest m;
	struct err e;

	manifest_print_head(&s, 1, NULL);
	parses(s.buf, s.len, "");
	str_adds(&s, "a\tU8\t9000000\t0\t9000000\tf\t100\t9000000\t0123456789abcdef\n");
	CHECK(manifest_parse(&m, s.buf, s.len, "m", &e) == 0);
	CHECK(m.num_sums == 1 && m.tensor[0].piece[0].num_sums == 1 &&
	    m.sum[0] == 0x0123456789abcdef);
	manifest_print(&m, &again);
	CHECK_STR(again.buf, s.buf);
	manifest_release(&m);
	str_adds(&s, "b\tU8\t2\t0\t2\tf\t101\t2\t0000000000000000\n");
	parses(s.buf, s.len, "m: tensors 'a' and 'b' share bytes of f");
	parses("", 0, "m:1: not the head of a checkpoint manifest of version 1 or 2");
	str_release(&again);
	str_release(&s);
}

enum { WIDE = 1 << 20, TALL = 5 }; /* a row is one block */

/* Writes TALL rows of WIDE floats in one piece, as the newest checkpoint of save. */
static int
save_tall(const char *save, int64_t iteration)
{
	struct slice slice = { 2, { 0, 0 }, { TALL, WIDE } };
	char *state = state_of(iteration);
	struct ckpt_commit c = {
		.save = save, .iteration = iteration, .options = "", .state = state
	};
	float *x = mem_alloc((size_t)TALL * WIDE, sizeof *x);
	struct str lines = { 0 };
	struct ckpt_writer *w;
	char tmp[IO_PATH];
	struct err e;
	int rc = ckpt_begin(save, iteration, tmp, &e);

	for (int i = 0; i < TALL * WIDE; i++)
		x[i] = (float)i;
	w = ckpt_writer_new(tmp, 0, &e);
	ckpt_declare(w, "w", DTYPE_F32, 2, slice.count, &slice);
	rc |= ckpt_write(w, x, &e) | ckpt_writer_finish(w, &lines, &e);
	c.tmp = tmp;
	c.manifest = lines.buf;
	rc |= ckpt_commit(&c, &e);
	str_release(&lines);
	free(state);
	free(x);
	return rc;
}

/* Rewrites the manifest of dir in version 1: one checksum of the whole piece, none of the texts or
 * of itself. */
static void
make_version_1(const char *dir)
{
	struct err e;
	struct ckpt *c = ckpt_open(dir, &e);
	const struct ckpt_tensor *t = ckpt_at(c, 0);
	struct ckpt_piece piece = t->piece[0];
	struct str s = { 0 };
	char path[IO_PATH + 100];
	uint64_t sum;
	char *bytes;

	snprintf(path, sizeof path, "%s/pieces-00000.safetensors", dir);
	CHECK(io_read_file(path, 0, &bytes, NULL, &e) == 0);
	sum = hash_xxh3(bytes + piece.offset, piece.bytes);
	piece.num_sums = 1;
	piece.sum = &sum;
	manifest_print_head(&s, 1, NULL);
	manifest_print_piece(&s, t, &piece, "pieces-00000.safetensors");
	put(dir, "manifest.tsv", s.buf, s.len);
	free(bytes);
	str_release(&s);
	ckpt_close(c);
}

/* Reads one element of each of n rows from `first` on, as a tensor rank with one column does. */
static int
read_rows(struct ckpt *c, int64_t first, int64_t n, struct err *e)
{
	struct slice slice = { 2, { first, 7 }, { n, 1 } };
	float x[TALL];

	if (ckpt_read(c, "w", &slice, x, e) < 0)
		return -1;
	for (int64_t i = 0; i < n; i++)
		CHECK(x[i] == (float)((first + i) * WIDE + 7));
	return 0;
}

/* Lends rows of the tall tensor: 1, 0 when it does not, -1 with the reason. */
static int
lend_rows(struct ckpt *c, int64_t first, int64_t n, struct err *e)
{
	struct slice slice = { 2, { first, 0 }, { n, WIDE } };
	const void *at;
	float x;

	if (ckpt_lend(c, "w", &slice, &at, e) < 0)
		return -1;
	if (!at)
		return 0;
	for (int64_t i = 0; i < n * WIDE; i++) {
		memcpy(&x, (const char *)at + (size_t)i * sizeof x, sizeof x);
		CHECK(x == (float)(first * WIDE + i));
	}
	ckpt_give_back(c, "w", &slice);
	return 1;
}

/* Sealing accepts a consistent edit and refuses any other; the iteration of a directory is known.
 */
static void
test_seal(const char *save)
{
	char dir[IO_PATH], away[IO_PATH];
	struct str changed = { 0 };
	struct err e;
	struct ckpt *c;

	CHECK(save_one(save, 9, 100, &e) == 0);
	ckpt_iter_dir(save, 9, dir);
	edit(dir, "state.conf", "samples  72", "samples  80");
	CHECK(ckpt_open(dir, &e) == NULL && ckpt_seal(dir, &changed, &e) == 0);
	CHECK_STR(changed.buf, "state.conf");
	c = ckpt_open(dir, &e);
	CHECK(c && ckpt_state(c)->consumed_train_samples == 80);
	ckpt_close(c);
	edit(dir, "state.conf", "samples  80", "sample  80");
	CHECK(ckpt_seal(dir, &changed, &e) < 0 &&
	    strstr(e.msg, "state.conf:3: unknown key 'consumed_train_sample'"));
	edit(dir, "state.conf", "sample  80", "samples  80");
	ckpt_iter_dir(save, 10, away);
	CHECK(rename(dir, away) == 0 && ckpt_open(away, &e) == NULL);
	CHECK(
	    strstr(e.msg, "state.conf: iteration 9, but the directory is named for iteration 10"));
	CHECK(snprintf(dir, sizeof dir, "%s/copy", save) < (int)sizeof dir);
	CHECK(rename(away, dir) == 0 && first_element(dir) == 100);
	str_release(&changed);
}

/* A read verifies only the blocks that it reads a part of; ranks divide the bytes of one checksum.
 */
static void
test_blocks(const char *save)
{
	char dir[IO_PATH], path[IO_PATH + 100], older[IO_PATH];
	struct err e;
	struct ckpt *c;
	int fd;

	CHECK(save_tall(save, 1) == 0 && save_tall(save, 2) == 0);
	ckpt_iter_dir(save, 2, dir);
	c = ckpt_open(dir, &e);
	CHECK(ckpt_at(c, 0)->piece[0].num_sums == TALL && ckpt_sealed(c));
	snprintf(path, sizeof path, "%s/pieces-00000.safetensors", dir);
	fd = open(path, O_RDWR);
	CHECK(pwrite(fd, "xxx", 3,
		  (off_t)(ckpt_at(c, 0)->piece[0].offset + 3 * CKPT_BLOCK_BYTES + 99)) == 3);
	CHECK(read_rows(c, 0, 3, &e) == 0 && read_rows(c, 4, 1, &e) == 0 && !ckpt_damaged(c));
	CHECK(read_rows(c, 0, TALL, &e) < 0 && ckpt_damaged(c));
	CHECK(strstr(e.msg,
	    "/iter_0000002/pieces-00000.safetensors: the bytes of tensor 'w' are damaged: wrong "
	    "checksum"));
	CHECK(lend_rows(c, 0, 3, &e) == 1 && lend_rows(c, 4, 1, &e) == 1);
	CHECK(lend_rows(c, 2, 2, &e) < 0 && lend_rows(c, 3, 1, &e) < 0);
	CHECK(strstr(e.msg, "the bytes of tensor 'w' are damaged: wrong checksum"));
	/* a second damaged block is found after the first */
	CHECK(pwrite(fd, "xxx", 3,
		  (off_t)(ckpt_at(c, 0)->piece[0].offset + 1 * CKPT_BLOCK_BYTES + 7)) == 3);
	ckpt_close(c);
	c = ckpt_open(dir, &e);
	CHECK(read_rows(c, 0, TALL, &e) < 0 && read_rows(c, 1, 1, &e) < 0);
	CHECK(read_rows(c, 3, 1, &e) < 0 && read_rows(c, 2, 1, &e) == 0);
	CHECK(ckpt_verify_file(c, 0, &e) < 0);
	CHECK(ckpt_check_share(c, 0, 1, &e) == 0);
	ckpt_close(c);
	CHECK(ckpt_older(dir, older) && strstr(older, "/iter_0000001") && ckpt_older(save, older) &&
	    !ckpt_older(older, dir));
	ckpt_iter_dir(save, 1, dir);
	make_version_1(dir);
	c = ckpt_open(dir, &e);
	CHECK(!ckpt_sealed(c) && ckpt_check_share(c, 0, 2, &e) == 0 &&
	    lend_rows(c, 0, 1, &e) == 0 && read_rows(c, 0, TALL, &e) == 0);
	CHECK(ckpt_verify_file(c, 0, &e) == 0);
	ckpt_close(c);
	snprintf(path, sizeof path, "%s/pieces-00000.safetensors", dir);
	close(fd);
	fd = open(path, O_RDWR);
	CHECK(pwrite(fd, "xxx", 3, 5000000) == 3);
	c = ckpt_open(dir, &e);
	CHECK(read_rows(c, 4, 1, &e) < 0 && ckpt_check_share(c, 0, 2, &e) < 0 &&
	    ckpt_check_share(c, 1, 2, &e) == 0);
	CHECK(read_rows(c, 4, 1, &e) == 0);
	ckpt_close(c);
	close(fd);
}

/* A changed byte of body or header is detected; a truncated or missing file is detected on opening.
 */
static void
test_damaged_files(const char *dir)
{
	char path[IO_PATH + 100], away[IO_PATH + 200];
	struct err e;
	struct ckpt *c = ckpt_open(dir, &e);
	uint64_t at = ckpt_find(c, "w")->piece[1].offset + 5;
	int fd;

	snprintf(path, sizeof path, "%s/pieces-00001.safetensors", dir);
	snprintf(away, sizeof away, "%s.away", path);
	fd = open(path, O_RDWR);
	CHECK(pwrite(fd, "\377", 1, (off_t)at) == 1);
	CHECK(ckpt_verify_file(c, 0, &e) == 0 && ckpt_verify_file(c, 1, &e) < 0);
	CHECK(strstr(e.msg, "pieces-00001.safetensors: the bytes of tensor 'w' are damaged"));
	CHECK(pwrite(fd, "x", 1, 45) == 1 && ckpt_verify_file(c, 1, &e) < 0);
	CHECK(strstr(e.msg, "its header disagrees with the manifest about tensor 'w'"));
	CHECK(pwrite(fd, "\377", 1, 20) == 1 && ckpt_verify_file(c, 1, &e) < 0 &&
	    strstr(e.msg, "not UTF-8"));
	CHECK(ftruncate(fd, (off_t)at) == 0);
	CHECK(ckpt_read(c, "w", &(struct slice){ 2, { 3, 0 }, { 1, 1 } }, away, &e) < 0);
	CHECK(strstr(e.msg, "its size changed while the checkpoint was open"));
	ckpt_close(c);
	CHECK(ckpt_open(dir, &e) == NULL && strstr(e.msg, "pieces-00001.safetensors: truncated: "));
	CHECK(rename(path, away) == 0);
	CHECK(ckpt_open(dir, &e) == NULL &&
	    strstr(e.msg, "pieces-00001.safetensors': No such file or directory"));
	close(fd);
}

/* Makes top/NAME/ENTRY (a directory when it ends in '/') holding text; returns top/NAME in out. */
static void
make_entry(const char *name, const char *entry, const char *text, char out[IO_PATH + 100])
{
	char path[2400];
	struct err e;

	snprintf(out, 1200, "%s/%s", top, name);
	CHECK(io_mkdir_p(out, &e) == 0);
	snprintf(path, sizeof path, "%s/%s", out, entry);
	if (entry[strlen(entry) - 1] == '/')
		CHECK(mkdir(path, 0777) == 0);
	else
		CHECK(outfile_write(path, text, strlen(text), &e) == 0);
}

static void
test_foreign(void)
{
	static const struct {
		const char *name, *entry, *text, *reason;
	} cases[] = {
		{ "mcore", "mp_rank_00/", "",
		    "' is a Megatron-LM checkpoint: mckpt import reads it" },
		{ "dist", "__0_0.distcp", "",
		    "' lacks .metadata or metadata.json: an incomplete checkpoint of Megatron-LM" },
		{ "hf", "config.json", "{}", "' is a Hugging Face model: mckpt import reads it" },
		{ "release", "latest_checkpointed_iteration.txt", "release\n",
		    "names a release of Megatron-LM: mckpt import" },
		{ "number", "latest_checkpointed_iteration.txt", "-5",
		    "not the number of an iteration: '-5'" },
		{ "blank", "latest_checkpointed_iteration.txt", " \n",
		    "not the number of an iteration: ''" },
		{ "gone", "latest_checkpointed_iteration.txt", "7\n",
		    "/iter_0000007' is missing, though latest_" },
		{ "untracked", "iter_0000001/", "",
		    "has iter_* directories but no latest_checkpointed_iteration.txt" },
		{ "cut", "pieces-00000.safetensors", "",
		    "has no manifest.tsv: an incomplete checkpoint" },
		{ "nothing", "notes.txt", "", "no checkpoint in '" },
	};
	struct err e;
	char dir[IO_PATH + 100];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		make_entry(cases[i].name, cases[i].entry, cases[i].text, dir);
		CHECK(ckpt_open(dir, &e) == NULL);
		if (!strstr(e.msg, cases[i].reason))
			CHECK_STR(e.msg, cases[i].reason);
	}
	make_entry("megatron", "latest_checkpointed_iteration.txt", "5", dir);
	make_entry("megatron/iter_0000005", "mp_rank_00/", "", dir);
	*strrchr(dir, '/') = '\0';
	CHECK(ckpt_open(dir, &e) == NULL &&
	    strstr(e.msg, "/megatron/iter_0000005' is a Megatron-LM checkpoint"));
	CHECK(ckpt_open("/nowhere", &e) == NULL);
	CHECK_STR(e.msg, "cannot open '/nowhere': No such file or directory");
}

/* A save that was interrupted leaves the previous checkpoint, and the next save starts from
 * scratch. */
static void
test_interrupted(const char *save)
{
	struct ckpt_commit c = { .save = save, .iteration = 7, .options = "", .state = "" };
	struct str lines = { 0 };
	struct ckpt_writer *w;
	char tmp[IO_PATH], other[IO_PATH];
	struct err e;
	float x = 0;

	CHECK(save_one(save, 6, 200, &e) == 0);
	CHECK(ckpt_begin(save, 7, tmp, &e) == 0 && write_rows(tmp, 0, 0, 3, 300, &lines, &e) == 0);
	w = ckpt_writer_new(tmp, 1, &e);
	ckpt_declare(w, "x", DTYPE_F32, 2, shape, &(struct slice){ 2, { 0, 0 }, { 1, 1 } });
	CHECK(ckpt_write(w, &x, &e) == 0);
	CHECK(first_element(save) == 200);
	ckpt_writer_abort(w);
	c.tmp = tmp;
	c.manifest = lines.buf;
	CHECK(ckpt_commit(&c, &e) < 0 &&
	    strstr(e.msg, "manifest.tsv: tensor 'w': a hole: 6 elements are in no piece"));
	CHECK(first_element(save) == 200 && !io_exists(tmp));
	CHECK(ckpt_begin(save, 7, tmp, &e) == 0 && ckpt_begin(save, 7, other, &e) == 0 &&
	    strcmp(tmp, other) && io_exists(tmp));
	CHECK(save_one(save, 7, 300, &e) == 0 && first_element(save) == 300);
	CHECK(save_one(save, 7, 400, &e) == 0 && first_element(save) == 400);
	CHECK(ckpt_has_iterations(save) && !ckpt_has_iterations(tmp) && io_exists(other));
	lock_release(ckpt_claim(save, &(struct lock_terms){ .say = ignore }, &e));
	CHECK(!io_exists(tmp) && !io_exists(other) && first_element(save) == 400);
	str_release(&lines);
}

/* With a limit on the size of files, every point at which a save can fail leaves the old
 * checkpoint. */
static void
test_full_disk(const char *save)
{
	struct rlimit old, small;
	struct err e = { "" };

	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small = old;
	for (small.rlim_cur = 0; small.rlim_cur < 400; small.rlim_cur += 50) {
		setrlimit(RLIMIT_FSIZE, &small);
		CHECK(save_one(save, 8, 500, &e) < 0);
		setrlimit(RLIMIT_FSIZE, &old);
		CHECK(strstr(e.msg, "File too large") && !strchr(e.msg, '\n'));
		CHECK(first_element(save) == 400);
	}
	CHECK(save_one(save, 8, 500, &e) == 0 && first_element(save) == 500);
}

/* The remains of interrupted saves are removed, unless the only copies of a checkpoint have hidden
 * names. */
static void
test_sweep(void)
{
	static const struct {
		const char *name;
		bool stays[2]; /* without, and with the only copies of iteration 4 */
	} row[] = { { "iter_0000002", { true, true } }, { ".iter_0000002.old", { false, false } },
		{ ".iter_0000002.tmp", { false, false } },
		{ ".iter_0000004.elsewhere.1.0123456789abcdef.tmp", { false, true } },
		{ ".x.elsewhere.1.0123456789abcdef.tmp", { false, false } },
		{ ".other", { true, true } }, { ".iter_0000004.old", { false, true } } };
	char dir[] = "/tmp/mikoshi-sweep-XXXXXX", path[100];
	int n = sizeof row / sizeof *row;
	struct err e;

	CHECK(mkdtemp(dir) != NULL);
	for (int only = 0; only < 2; only++) {
		for (int i = 0; i < n - !only; i++) {
			snprintf(path, sizeof path, "%s/%s", dir, row[i].name);
			CHECK(io_mkdir_p(path, &e) == 0);
		}
		CHECK(ckpt_make_save(dir, &e) == 0);
		lock_release(ckpt_claim(dir, &(struct lock_terms){ .say = ignore }, &e));
		for (int i = 0; i < n; i++) {
			snprintf(path, sizeof path, "%s/%s", dir, row[i].name);
			CHECK(io_exists(path) == row[i].stays[only]);
		}
	}
	CHECK(io_remove_tree(dir, &e) == 0);
}

/* True when dir holds exactly these names of the form iter_*. */
static bool
holds(const char *dir, const char *const *name)
{
	DIR *d = opendir(dir);
	struct dirent *de;
	bool same = true;
	int found = 0, wanted = 0;

	for (; name[wanted]; wanted++) {
		char path[100];

		snprintf(path, sizeof path, "%s/%s", dir, name[wanted]);
		same = same && io_exists(path);
	}
	while ((de = readdir(d)))
		found += strstr(de->d_name, "iter_") != NULL;
	closedir(d);
	return same && found == wanted;
}

/* Only names count. Repeated calls make further names; the tracker names a checkpoint that stays.
 */
static void
test_set_aside(void)
{
	static const char *const first[] = { "iter_0000002", "iter_0000004", "iter_0000006.aside-1",
		NULL };
	static const char *const second[] = { "iter_0000002.aside-1", "iter_0000004.aside-1",
		"iter_0000006.aside-1", "iter_0000006.aside-2", NULL };
	char dir[] = "/tmp/mikoshi-aside-XXXXXX", path[100], to[IO_PATH];
	int64_t iteration;
	struct err e;

	CHECK(mkdtemp(dir) != NULL && ckpt_set_aside(dir, 0, NULL, to, &e) == 0);
	for (int i = 2; i <= 6; i += 2) {
		snprintf(path, sizeof path, "%s/iter_%07d", dir, i);
		CHECK(io_mkdir_p(path, &e) == 0);
	}
	CHECK(ckpt_set_aside(dir, 6, NULL, to, &e) == 0 && ckpt_tracker(dir, &iteration, &e) == 0);
	CHECK(ckpt_set_aside(dir, 5, NULL, to, &e) == 1 && strstr(to, "/iter_0000006.aside-1"));
	CHECK(holds(dir, first) && ckpt_tracker(dir, &iteration, &e) == 1 && iteration == 4);
	CHECK(io_mkdir_p(path, &e) == 0);
	CHECK(ckpt_set_aside(dir, 1, NULL, to, &e) == 3 && strstr(to, "/iter_0000002.aside-1"));
	CHECK(holds(dir, second) && ckpt_tracker(dir, &iteration, &e) == 0);
	CHECK(io_remove_tree(dir, &e) == 0);
}

/* A directory without a manifest is no checkpoint; one that cannot be read is not missing. */
static void
test_highest(void)
{
	char dir[] = "/tmp/mikoshi-highest-XXXXXX", found[IO_PATH], path[100];
	struct err e;

	CHECK(mkdtemp(dir) != NULL && ckpt_highest(dir, found, &e) == 0);
	snprintf(path, sizeof path, "%s/missing", dir);
	CHECK(ckpt_highest(path, found, &e) == 0);
	CHECK(save_one(dir, 3, 1, &e) == 0 && ckpt_highest(dir, found, &e) == 1);
	CHECK(strstr(found, "/iter_0000003"));
	snprintf(path, sizeof path, "%s/iter_0000004", dir);
	CHECK(io_mkdir_p(path, &e) == 0 && ckpt_highest(dir, found, &e) == 0);
	snprintf(path, sizeof path, "%s/iter_0000004/manifest.tsv", dir);
	CHECK(symlink("manifest.tsv", path) == 0 && ckpt_highest(dir, found, &e) < 0);
	CHECK(strstr(e.msg, "symbolic links"));
	CHECK(io_remove_tree(dir, &e) == 0);
}

/* Of 1 to 9 with a link, those between 6 and 9 are removed; with 9 alone none is. */
static void
test_retain(void)
{
	const char *rest[] = { "iter_0000001", "iter_0000002", "iter_0000003", "iter_0000004",
		"iter_0000005", "iter_0000006", "iter_0000008", "iter_0000009", "iter_0000010",
		NULL };
	char dir[] = "/tmp/mikoshi-retain-XXXXXX", path[100];
	struct ckpt_retention r = {
		.save = dir, .iteration = 9, .interval = 3, .since = INT64_MAX
	};
	struct err e;

	CHECK(mkdtemp(dir) != NULL);
	for (int i = 1; i <= 10; i++) {
		snprintf(path, sizeof path, "%s/iter_%07d", dir, i);
		CHECK(i == 8 ? symlink("iter_0000001", path) == 0 : io_mkdir_p(path, &e) == 0);
	}
	CHECK(ckpt_retain(&r, &e) == 0 && holds(dir, rest));
	r.iteration = 10;
	CHECK(ckpt_retain(&r, &e) == 0 && holds(dir, rest));
	/* what is read stays until it is not, whatever multiple has passed since */
	r.read[r.num_read++] = 10;
	r.iteration = 11;
	CHECK(ckpt_retain(&r, &e) == 0 && holds(dir, rest));
	r.iteration = 13;
	r.num_read = 0;
	rest[8] = NULL;
	CHECK(ckpt_retain(&r, &e) == 0 && holds(dir, rest));
	r.save = "/nowhere";
	CHECK(ckpt_retain(&r, &e) < 0);
	CHECK(io_remove_tree(dir, &e) == 0);
}

int
main(void)
{
	char save[IO_PATH + 100], dir[IO_PATH], long_name[IO_PATH + 10];
	struct err e;

	CHECK(mkdtemp(top) != NULL);
	snprintf(save, sizeof save, "%s/save/deep", top);
	ckpt_iter_dir(save, 5, dir);
	test_round_trip(save);
	test_bad_reads(save);
	test_damaged_texts(dir);
	test_damaged_lines(dir);
	test_version_1();
	test_damaged_files(dir);
	test_foreign();
	test_interrupted(save);
	test_full_disk(save);
	snprintf(save, sizeof save, "%s/tall", top);
	test_blocks(save);
	test_seal(save);
	memset(long_name, 'a', sizeof long_name - 1);
	long_name[sizeof long_name - 1] = '\0';
	CHECK(ckpt_begin(long_name, 1, dir, &e) < 0 && strstr(e.msg, "path too long"));
	CHECK(io_remove_tree(top, &e) == 0);
	test_sweep();
	test_set_aside();
	test_highest();
	test_retain();
	return check_done();
}
