/*
 * load.c - the cost of verifying checksums when a checkpoint is read
 *
 *   load DIR [MIB]
 *
 * Writes a checkpoint of MIB MiB (1024 by default) under DIR, in pieces of 64 MiB, and reads it as
 * a rank does, tensor by tensor into host memory, alternately with and without checksums. Prints
 * two rows, each with the minimum seconds of ROUNDS rounds with and without: first with the file
 * dropped from the page cache before each round, then from the cache. The minimum, because other
 * load can only add time.
 */
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/ckpt/ckpt_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 15, ROWS = 4096, COLUMNS = 4096, PIECE_MIB = 64 };

static const struct slice whole = { 2, { 0, 0 }, { ROWS, COLUMNS } };

/* Ends the program with the reason. */
static void
check(bool good, const struct err *e)
{
	if (good)
		return;
	fprintf(stderr, "load: %s\n", e->msg);
	exit(1);
}

/* n tensors of one piece each, of incompressible bytes. */
static void
make(const char *save, int n, float *x)
{
	struct ckpt_commit c = { .save = save,
		.iteration = 0,
		.options = "",
		.state = "iteration 0\nconsumed_train_samples 0\noptimizer_steps "
			 "0\nskipped_iterations 0\n" };
	struct str lines = { 0 };
	char tmp[IO_PATH], name[16];
	struct err e;
	struct ckpt_writer *w;

	check(ckpt_begin(save, 0, tmp, &e) == 0, &e);
	w = ckpt_writer_new(tmp, 0, &e);
	check(w, &e);
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof name, "t%04d", i);
		ckpt_declare(w, name, DTYPE_F32, 2, whole.count, &whole);
	}
	for (int i = 0; i < n; i++) {
		uint32_t bits = (uint32_t)i;

		for (int64_t k = 0; k < (int64_t)ROWS * COLUMNS; k++) {
			bits = bits * 1664525 + 1013904223;
			x[k] = (float)bits;
		}
		check(ckpt_write(w, x, &e) == 0, &e);
	}
	check(ckpt_writer_finish(w, &lines, &e) == 0, &e);
	c.tmp = tmp;
	c.manifest = lines.buf;
	check(ckpt_commit(&c, &e) == 0, &e);
	str_release(&lines);
}

/* Seconds from opening to the last element. */
static double
read_all(const char *save, bool sums, float *x)
{
	struct err e;
	double start = clock_seconds();
	struct ckpt *c = ckpt_open(save, &e);

	check(c, &e);
	if (!sums)
		memset(c->checked, true, (size_t)c->m.num_sums);
	for (int i = 0; i < ckpt_count(c); i++)
		check(ckpt_read(c, ckpt_at(c, i)->name, &whole, x, &e) == 0, &e);
	ckpt_close(c);
	return clock_seconds() - start;
}

/* Drops the file's pages from the cache; they are on disk already. */
static void
drop(const char *save)
{
	char path[1200];
	int fd;

	snprintf(path, sizeof path, "%s/iter_0000000/pieces-00000.safetensors", save);
	fd = open(path, O_RDONLY);
	if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED)) {
		perror(path);
		exit(1);
	}
	close(fd);
}

/* One row. The order of the two alternates between rounds. */
static void
measure(const char *save, bool cold, float *x)
{
	double least[2] = { 1e9, 1e9 };

	for (int i = 0; i < ROUNDS; i++)
		for (int k = 0; k < 2; k++) {
			bool sums = (i + k) % 2;
			double t;

			if (cold)
				drop(save);
			t = read_all(save, sums, x);
			least[sums] = t < least[sums] ? t : least[sums];
		}
	printf("%s\t%.4f\t%.4f\n", cold ? "cold" : "warm", least[1], least[0]);
}

int
main(int argc, char **argv)
{
	int n = (argc > 2 ? atoi(argv[2]) : 1024) / PIECE_MIB;
	float *x = mem_alloc((size_t)ROWS * COLUMNS, sizeof *x);
	char save[1024];
	struct err e;

	if (argc < 2 || n < 1)
		return fputs("usage: load DIR [MIB]\n", stderr), 2;
	snprintf(save, sizeof save, "%.1000s/bench-load.%ld", argv[1], (long)getpid());
	make(save, n, x);
	read_all(save, true, x);
	measure(save, true, x);
	measure(save, false, x);
	check(io_remove_tree(save, &e) == 0, &e);
	free(x);
	return 0;
}
