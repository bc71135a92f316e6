/*
 * dataset.c - datasets for the benchmark, and the time to open them
 *
 *   dataset make PREFIX DOCUMENTS TOKENS
 *   dataset open ROUNDS PREFIX ...
 *   dataset print ROUNDS PREFIX ...
 *
 * make writes a dataset of DOCUMENTS documents of TOKENS u16 ids each. open prints the milliseconds
 * to open all datasets, the minimum of ROUNDS rounds; print adds the fingerprint of each.
 */
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "tests/one_document.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program with the reason. */
static void
fail(const struct err *e)
{
	fprintf(stderr, "dataset: %s\n", e->msg);
	exit(1);
}

/* Every document is one sequence, as with ordinary pretraining data. */
static void
make(const char *prefix, int64_t documents, int32_t tokens)
{
	uint16_t *ids = mem_alloc((size_t)tokens, sizeof *ids);
	struct err e;
	struct dataset_writer *w = dataset_writer_new(prefix, DTYPE_U16, &e);

	for (int32_t i = 0; i < tokens; i++)
		ids[i] = (uint16_t)(i * 40503u);
	for (int64_t i = 0; w && i < documents; i++)
		if (add_document(w, ids, &tokens, 1, &e) < 0)
			fail(&e);
	if (!w || dataset_commit(w, &e) < 0)
		fail(&e);
	free(ids);
}

/* All datasets are open at the same time, as in a blend. */
static double
open_all(int count, char **prefix, int with_print)
{
	struct dataset **d = mem_zalloc((size_t)count, sizeof *d);
	double start = 1e3 * clock_seconds(), t;
	struct err e;
	char text[64];

	for (int i = 0; i < count; i++) {
		d[i] = dataset_open(prefix[i], &e);
		if (!d[i])
			fail(&e);
		if (with_print)
			dataset_fingerprint(d[i], dataset_index_hash(d[i]), text);
	}
	t = 1e3 * clock_seconds() - start;
	for (int i = 0; i < count; i++)
		dataset_close(d[i]);
	free(d);
	return t;
}

int
main(int argc, char **argv)
{
	double best = 1e30;

	if (argc == 5 && !strcmp(argv[1], "make")) {
		make(argv[2], atoll(argv[3]), (int32_t)atoi(argv[4]));
		return 0;
	}
	if (argc < 4) {
		fprintf(stderr,
		    "usage: dataset make PREFIX DOCUMENTS TOKENS | open ROUNDS PREFIX ... | "
		    "print ROUNDS PREFIX ...\n");
		return 2;
	}
	for (int i = atoi(argv[2]); i > 0; i--) {
		double t = open_all(argc - 3, argv + 3, !strcmp(argv[1], "print"));

		best = t < best ? t : best;
	}
	printf("%.1f\n", best);
	return 0;
}
