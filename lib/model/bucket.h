/*
 * bucket.h - the part of a model that a rank holds: shards in one flat order, cut into buckets
 *
 * Weights, gradients, master weights and moments share one flat order of elements: of each chunk of
 * the stage first the vectors, those that every tensor rank holds whole before those that are cut
 * and the balancing biases of experts between them, then the matrices by layer. A bucket is a
 * stretch of it that is reduced, updated and gathered at once: all vectors of a chunk, but those of
 * experts that ranks share, which are another; a vocabulary table; whole layers until they reach
 * bucket_size elements. Each of a rank's data ranks (those that differ only
 * in their data) has a part of each bucket: an equal one, or whole matrices of layers where the
 * update rule needs them (cut.h). Reduction, norm, update, save, load and reshard all walk the
 * buckets with bucket_part and part_cut.
 */
#ifndef MODEL_BUCKET_H
#define MODEL_BUCKET_H

#include "lib/model/params.h"

enum {
	SHARD_ALIGN = 64, /* elements between tensors that are not joined */
	BUCKET_ALIGN =
	    1024, /* a bucket's size is a multiple of this and of the number of data ranks */
	BUCKET_ELEMENTS = 1 << 27, /* a bucket of layers is full from this on, by default */
	BUCKET_PASSING =
	    1 << 25, /* of a bucket, at most, in what data ranks push to each other at a time */
	BUCKET_CHUNK = 1 << 22, /* of a bucket, at most, in what passes to the host at a time */
	/* buckets of layers held whole at the same time where they are sharded; and as many of
	 * experts that ranks share */
	BUCKET_SLOTS = 2,
	BUCKET_TURNS = 2 * BUCKET_SLOTS,
};

/* The part of one parameter that a rank holds. */
struct shard {
	int param; /* index into the table */
	int bucket;
	int chunk;                 /* of the stage that uses it */
	int64_t shape[SLICE_DIMS]; /* as allocated, with padded rows */
	int64_t offset, count;     /* in the flat order, elements */
	/* the real elements, global; they come first in memory. May be empty (count 0) */
	struct slice slice;
	/* the last stage's copy of a tied table: not counted in norms, not saved */
	bool tied_copy;
	bool owner; /* this rank's copy is counted and saved (over tp and pp; every data rank) */
};

/* A stretch of the flat order; where it begins in buffers of the elements of a data rank's shards,
 * which sharded weights and gradients are of; in those of the elements that its optimizer owns; and
 * in those of a state of the update rule, which skip buckets that keep other states. */
struct part {
	int64_t first, count, in_shard, in_optim, state;
};

struct bucket {
	int64_t first,
	    count; /* in the flat order, with the gaps between shards, which hold zeros */
	/* the elements of the buckets before it that keep the same states: of all, or see cut.h */
	int64_t state;
	const struct part *part; /* of each owner, owned by the shards; NULL: equal parts */
	/* Layers that use it, numbered as in struct param; its gradients are complete when the
	 * backward pass has left the first of them. */
	int first_layer, last_layer;
	int chunk;    /* of the stage, whose layers they are */
	bool decay;   /* weight decay applies: matrices */
	bool layers;  /* holds only matrices of layers */
	bool vocab;   /* is a vocabulary table, of the embedding or the head */
	bool experts; /* of a rank that does not have all: reduced over those that hold the same */
	bool gaps;    /* there are some between its shards */
	/* the rank's number among those that share the bucket, and how many there are; the instance
	 * that they are */
	int data_rank, data_ranks, instance;
	/* the rank's number among the owners of parts of the optimizer's state, and how many there
	 * are: the data ranks of an instance, or where instances share the state all of them, those
	 * of equal shards one after the other */
	int owner, owners;
	/* where the rank's shard begins in buffers of shards alone; its part in buffers of what its
	 * optimizer owns, and of a state */
	int64_t in_shard, in_optim, in_state;
	int turn; /* the slot of a bucket of layers */
	/* The offset of the whole bucket in a buffer that does not hold all elements: there every
	 * bucket has its own place, except those of layers, which share slots. */
	int64_t place;
};

/* A stretch of a bucket, gaps included, of which this rank owns all shards or none, and of which
 * all or none are PARAM_BALANCE. */
struct shard_run {
	int64_t first, count;
	int bucket;
	bool owner, balance;
};

/* A stretch of a bucket, gaps included, whose gradients are partial sums over the same ranks. */
struct shard_sum {
	int64_t first, count;
	int bucket;
	unsigned sums; /* enum param_sum */
};

struct shards {
	int count, num_buckets, num_runs, num_sums;
	int num_tensor_sums; /* of the sums, those over the tensor ranks, and their elements */
	int64_t tensor_sums;
	struct shard *item;    /* in model order */
	struct bucket *bucket; /* in the flat order, like the runs and the sums */
	struct shard_run *run;
	struct shard_sum *sum;
	struct part *part;     /* of each bucket and owner, or NULL: all parts are equal */
	int64_t elements;      /* of all buckets */
	int64_t slot_elements; /* elements of a buffer in which buckets of layers share slots */
	int64_t largest;       /* elements of the largest bucket */
};

/* The inputs of a rank's shards, apart from its coordinates. */
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
/* Keeps the buckets and all counts alone. */
void shards_forget(struct shards *s);

/* Whether a layer uses the bucket. */
bool bucket_serves(const struct bucket *b, int layer);
/* The part of bucket b that one of its owners has; offsets in buffers are not set. Where owners is
 * 1, all of the bucket, with offsets in buffers of all elements. */
struct part bucket_part(const struct bucket *b, int owner, int owners);
/* The shard of one of the data ranks of an instance: the parts of those that own it, which lie one
 * after the other. */
struct part bucket_shard(const struct bucket *b, int data_rank, int data_ranks);
/* The same where data ranks share a bucket equally, as collectives do. */
struct part bucket_share(const struct bucket *b, int data_rank, int data_ranks);
/* The rank's own part, and its shard, where data ranks each have one. */
struct part bucket_optim_part(const struct bucket *b);
struct part bucket_own_shard(const struct bucket *b);
/* Whether the rank's own part is that of no instance before its own. */
bool bucket_first_copy(const struct bucket *b);
/* The most elements that a rank owns of the buckets of layers, or of the others: of its parts of
 * them, or of all where nothing is sharded; and the most of its shards of them. */
int64_t shards_optim_elements(const struct shards *s, bool layers, bool sharded);
int64_t shards_shard_elements(const struct shards *s, bool layers);
/* The intersection of part p with [first, first + count) of the flat order; count 0 if empty.
 */
struct part part_cut(const struct part *p, int64_t first, int64_t count);
/* The part of a shard that owner i of n has. */
struct part shard_part(const struct shards *s, const struct shard *sh, int owner, int owners);
/* The part of a shard in the rank's own part of its bucket. */
struct part shard_share(const struct shards *s, const struct shard *sh);
/* The real elements of a part of a shard as boxes in global coordinates, in the order of memory.
 * Returns how many: 0 when the part holds none. */
int shard_slices(const struct shard *sh, const struct part *p, struct slice out[SLICE_FLAT_MAX]);

#endif
