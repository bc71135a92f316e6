/*
 * bucket.h - the part of a model that a rank holds: shards in one flat order, cut into buckets
 *
 * Weights, gradients, master weights and moments share one flat order of elements: first the
 * vectors, those that every tensor rank holds whole before those that are cut, then the matrices by
 * layer. A bucket is a stretch of it that is reduced, updated and gathered at once: all vectors; a
 * vocabulary table; whole layers until they have bucket_size elements. Each of the replicas of a
 * rank, those that differ in their data alone, owns an equal part of each bucket. bucket_part and
 * part_cut are the one walk that reduction, norm, update, save, load and reshard share.
 */
#ifndef MODEL_BUCKET_H
#define MODEL_BUCKET_H

#include "lib/model/params.h"

enum {
	SHARD_ALIGN = 64,    /* elements between tensors that are not joined */
	BUCKET_ALIGN = 1024, /* elements of a bucket: a multiple of this and of the replicas */
	BUCKET_ELEMENTS = 1 << 27, /* at which a bucket of layers is full, unless it is said */
	BUCKET_SLOTS = 2, /* buckets of layers that are whole at once where they take turns */
};

/* A rank's share of one parameter. */
struct shard {
	int param; /* index into the table */
	int bucket;
	int64_t shape[SLICE_DIMS]; /* as allocated here: padded rows included */
	int64_t offset, count;     /* in the flat order, elements */
	/* the real elements, global; they come first in memory. May be empty (count 0) */
	struct slice box;
	/* the last stage's copy of a tied table: not counted in norms, not saved */
	bool replica;
	bool owner; /* this rank's copy is counted and saved (over tp and pp; every replica) */
};

struct bucket {
	int64_t first, count; /* in the flat order; gaps between shards are in it and hold zeros */
	/* Layers that use it, as in struct param: complete when the backward pass has left the
	 * first of them. */
	int first_layer, last_layer;
	bool decay;  /* weight decay applies: matrices */
	bool layers; /* matrices of layers, and nothing else */
	/* Where it lies, whole, in a buffer that does not hold all elements: there all buckets but
	 * those of layers have places of their own, and those of layers take turns. */
	int64_t place;
};

/* A stretch of a bucket whose shards this rank owns, or does not, alike; gaps are in it. */
struct shard_run {
	int64_t first, count;
	int bucket;
	bool owner;
};

struct shards {
	int count, num_buckets, num_runs;
	struct shard *item;    /* in model order */
	struct bucket *bucket; /* in the flat order, as are the runs */
	struct shard_run *run;
	int64_t elements; /* of all buckets */
	int64_t places;   /* elements of a buffer in which buckets of layers take turns */
	int64_t largest;  /* elements of the largest bucket */
};

/* What a rank's shards follow from, beside its coordinates. */
struct shards_of {
	const struct param *table;
	int count;
	const struct model_config *model;
	const struct layout *layout;
	int64_t bucket_size; /* elements; 0: BUCKET_ELEMENTS */
};

/* The shards of the rank at coord; freed by shards_release. They refer to the table by index. */
void shards_init(struct shards *s, const struct shards_of *of, const int coord[AX_COUNT]);
void shards_release(struct shards *s);

/* A stretch of the flat order, and where it begins in buffers of a replica's own elements alone. */
struct part {
	int64_t first, count, own;
};
/* What replica i of n owns of bucket b. One of one owns all, and own is first. */
struct part bucket_part(const struct bucket *b, int replica, int replicas);
/* What of part p lies in [first, first + count) of the flat order; a count of 0 when nothing does.
 */
struct part part_cut(const struct part *p, int64_t first, int64_t count);
/* What replica i of n owns of a shard. */
struct part shard_part(const struct shards *s, const struct shard *sh, int replica, int replicas);
/* The real elements of a part of a shard as boxes in global coordinates, in the order of memory.
 * Returns how many: 0 when the part holds none. */
int shard_pieces(const struct shard *sh, const struct part *p, struct slice out[SLICE_FLAT_MAX]);

#endif
