/* samples_impl.h - what samples.c (building), samples_cache.c (files) and description.c (names)
 * share */
#ifndef FORMAT_SAMPLES_IMPL_H
#define FORMAT_SAMPLES_IMPL_H

#include "lib/format/npy.h"
#include "lib/format/samples.h"

/* An integer array that is either ours or a file's. */
struct index_map {
	enum dtype dtype;               /* I32, U32 or I64 */
	const void *data;
	void *own;                      /* free() it; NULL when the data is the file's */
	struct npy file;
};

struct samples {
	const struct dataset *d;
	struct split_matrix matrix;
	int64_t begin, end;             /* the split's sequences */
	int64_t seq_length, extra;      /* tokens of a sample: seq_length + extra */
	bool drop;
	int64_t tokens_per_epoch, num_epochs;
	bool separate;                  /* the last epoch is shuffled apart from the others */
	int64_t before;                 /* samples complete before the last epoch; with separate only */
	int64_t count;                  /* samples */
	int64_t num_positions;          /* entries of the document index */
	struct index_map document;      /* [num_positions], sequence numbers */
	struct index_map row;           /* [count + 1][2]: position in the document index, token offset there */
	struct index_map shuffle;       /* [count] */
	bool from_cache;
	char hash[33];
};

/* Element i of a map; the elements of a file may be unaligned. */
int64_t index_map_get(const struct index_map *m, int64_t i);
void    index_map_release(struct index_map *m);

/* The walk that gives the rows of the sample index one after the other; row 0 is (0, 0). */
struct walk {
	int64_t position, offset;
};
/* Steps to the next row; -1 when the document index ends before the sample is full (never in maps
 * that belong together). */
int  samples_walk(const struct samples *s, struct walk *w);

/* Takes the three maps from the cache directory if they are complete and belong to this dataset and
 * configuration. */
bool samples_load(struct samples *s, const struct samples_config *c, const struct str *description);
/* Writes the four files of the cache. */
int samples_store(const struct samples *s, const struct samples_config *c,
    const struct str *description, struct err *e);

#endif
