/*
 * rank_buffers.h - the buffers of a rank that belong to no block, or to several
 */
#ifndef MODEL_RANK_BUFFERS_H
#define MODEL_RANK_BUFFERS_H

#include "lib/model/block/rows.h"
#include "lib/model/bucket.h"

/* What a rank has of the model. */
struct rank_share {
	const struct block *block;
	int num_blocks;
	const struct shards *shards;
	const struct optim_rule *rule; /* NULL: nothing is updated */
	/* elements that its optimizer owns; of them those in buckets of layers, and those that the
	 * device updates; and of a slot of the ring to the host */
	int64_t optim_elements, optim_matrices, optim_device, staging;
	int64_t shard_elements; /* that its data rank holds where all is sharded */
	/* elements of the largest matrix of a layer, in all its ranks; of the largest share of one,
	 * for each of its ranks (param_ranks); of the largest square of a shorter side */
	int64_t matrix, updates, gram;
};

/* States them, with numbers of enum rank_buffer. */
void rank_buffers(struct buffer_list *to, const struct sizes *z, const struct rank_share *has);

#endif
