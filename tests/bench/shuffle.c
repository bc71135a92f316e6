/*
 * shuffle.c DIRECTORY DOCUMENTS TOKENS SEQ_LENGTH - a plain counterpart of mshard index: shuffles
 * and writes arrays of the same sizes
 *
 * 0 .. DOCUMENTS - 1 and 0 .. samples - 1 are shuffled with the same generator, one swap at a time;
 * rows of two numbers are filled in order; the three arrays are written and synced.
 */
#include "lib/base/rng.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* 0 .. n - 1 shuffled as NumPy's legacy generator does. */
static uint32_t *
shuffled(struct mt19937 *rng, int64_t n)
{
	uint32_t *a = malloc((size_t)n * sizeof *a);

	for (int64_t i = 0; i < n; i++)
		a[i] = (uint32_t)i;
	for (int64_t i = n - 1; i > 0; i--) {
		uint64_t j = mt19937_interval(rng, (uint64_t)i);
		uint32_t t = a[i];

		a[i] = a[j];
		a[j] = t;
	}
	return a;
}

/* Blanks in place of a header, the elements, and a sync. */
static void
write_array(const char *dir, const char *name, const void *bytes, size_t size)
{
	char path[4096], head[128];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s.npy", dir, name);
	memset(head, ' ', sizeof head);
	f = fopen(path, "wb");
	if (!f || fwrite(head, 1, sizeof head, f) != sizeof head ||
	    fwrite(bytes, 1, size, f) != size || fflush(f) != 0 || fsync(fileno(f)) != 0 ||
	    fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	int64_t n = argc > 4 ? atoll(argv[2]) : 0,
		m = argc > 4 ? (atoll(argv[3]) - 1) / atoll(argv[4]) : 0;
	struct mt19937 rng;
	uint32_t *document, *shuffle;
	int32_t *row;

	if (n < 1 || m < 1) {
		fprintf(stderr, "usage: shuffle DIRECTORY DOCUMENTS TOKENS SEQ_LENGTH\n");
		return 2;
	}
	mt19937_seed(&rng, 1234);
	document = shuffled(&rng, n);
	row = malloc((size_t)(m + 1) * 2 * sizeof *row);
	for (int64_t i = 0; i <= m; i++) {
		row[2 * i] = (int32_t)i;
		row[2 * i + 1] = (int32_t)document[i % n];
	}
	shuffle = shuffled(&rng, m);
	write_array(argv[1], "document_index", document, (size_t)n * 4);
	write_array(argv[1], "sample_index", row, (size_t)(m + 1) * 8);
	write_array(argv[1], "shuffle_index", shuffle, (size_t)m * 4);
	free(document);
	free(row);
	free(shuffle);
	return 0;
}
