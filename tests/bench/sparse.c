/*
 * sparse.c PREFIX DOCUMENTS TOKENS [CORPORA] - datasets for benchmarks of the index: random
 * lengths, and a sparse .bin
 *
 * Lengths are uniform from 1 to twice the mean; the last one is the rest of TOKENS. The type is
 * uint16. With CORPORA the datasets are PREFIX_0, PREFIX_1 and so on, each of DOCUMENTS and TOKENS.
 */
#include "lib/base/rng.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program unless the condition holds. */
static void
need(int condition, const char *what)
{
	if (condition)
		return;
	perror(what);
	exit(1);
}

/* Lengths of 1 or more that add up to `tokens`. */
static int32_t *
draw_lengths(int64_t documents, int64_t tokens, uint32_t seed)
{
	int32_t *length = malloc((size_t)documents * sizeof *length);
	uint64_t mean = (uint64_t)(tokens / documents);
	int64_t left = tokens;
	struct mt19937 rng;

	need(length != NULL, "malloc");
	mt19937_seed(&rng, seed);
	for (int64_t i = 0; i < documents; i++) {
		int64_t most = left - (documents - i - 1),
			n = 1 + (int64_t)(mt19937_next(&rng) % (2 * mean - 1));

		if (i + 1 == documents || n > most)
			n = most;
		length[i] = (int32_t)n;
		left -= n;
	}
	return length;
}

/* Header and arrays as lib/data/dataset.h has them, one sequence a document. */
static void
write_index(const char *path, const int32_t *length, int64_t documents)
{
	static const unsigned char head[18] = { 'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0, 1, 0, 0, 0,
		0, 0, 0, 0, 8 };
	int64_t bounds = documents + 1, at = 0;
	FILE *f = fopen(path, "wb");

	need(f != NULL, path);
	fwrite(head, 1, sizeof head, f);
	fwrite(&documents, 8, 1, f);
	fwrite(&bounds, 8, 1, f);
	fwrite(length, 4, (size_t)documents, f);
	for (int64_t i = 0; i < documents; at += 2 * length[i++])
		fwrite(&at, 8, 1, f);
	for (int64_t i = 0; i < bounds; i++)
		fwrite(&i, 8, 1, f);
	need(!ferror(f) && fclose(f) == 0, path);
}

/* One dataset. */
static void
write_dataset(const char *prefix, int64_t documents, int64_t tokens, uint32_t seed)
{
	int32_t *length = draw_lengths(documents, tokens, seed);
	char path[4096];
	int fd;

	snprintf(path, sizeof path, "%s.idx", prefix);
	write_index(path, length, documents);
	snprintf(path, sizeof path, "%s.bin", prefix);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	need(fd >= 0 && ftruncate(fd, 2 * tokens) == 0 && close(fd) == 0, path);
	free(length);
}

int
main(int argc, char **argv)
{
	char prefix[4000];
	int64_t documents = argc > 3 ? atoll(argv[2]) : 0, tokens = argc > 3 ? atoll(argv[3]) : 0;

	if (documents < 1 || tokens < documents) {
		fprintf(stderr, "usage: sparse PREFIX DOCUMENTS TOKENS [CORPORA]\n");
		return 2;
	}
	if (argc == 4) {
		write_dataset(argv[1], documents, tokens, 1);
		return 0;
	}
	for (int i = 0; i < atoi(argv[4]); i++) {
		snprintf(prefix, sizeof prefix, "%s_%d", argv[1], i);
		write_dataset(prefix, documents, tokens, (uint32_t)i);
	}
	return 0;
}
