/*
 * sampler.h - which samples a data rank reads at which point of a run (--dataloader-type)
 *
 * A function of the consumed samples alone, so that a resumed run goes on where the stopped one
 * was, and a run under another layout reads the same global batches with `single`. Source:
 * Megatron-LM megatron/training/datasets/data_samplers.py, MegatronPretrainingSampler and
 * MegatronPretrainingRandomSampler; PyTorch's randperm on the CPU.
 */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * single: in order, in groups of micro_batch_size * data_parallel_size, rank after rank.
 * cyclic: each epoch a permutation seeded by the number of the epoch, for ever. Sharded, each rank
 * has a contiguous bucket of its own and permutes it; not sharded, all ranks deal from one
 * permutation.
 */
enum sampler_type { SAMPLER_SINGLE, SAMPLER_CYCLIC };

struct sampler_config {
	enum sampler_type type;
	bool no_data_sharding; /* cyclic alone */
	int64_t total;         /* samples of the split */
	int64_t micro_batch_size, data_parallel_size;
};

/* Holds the permutation of the epoch it was last asked for; one thread at a time. */
struct sampler;

/* Fewer samples than one group, or more than randperm's 32-bit method reaches (214748363 a
 * permutation), is an error. */
struct sampler *sampler_new(const struct sampler_config *c, struct err *e);
void sampler_free(struct sampler *s);
/* Samples of an epoch, a multiple of the group; the rest of the split is left out. */
int64_t sampler_active(const struct sampler *s);
/*
 * The micro batch that data rank `rank` reads when `consumed` samples have been read by all ranks:
 * micro_batch_size sample numbers. consumed advances by the group; with cyclic it must be a
 * multiple of it. -1 with a reason: `single` has no group left there, or consumed is none of its
 * multiples.
 */
int sampler_batch(struct sampler *s, int64_t consumed, int64_t rank, int64_t *out, struct err *e);
/* PyTorch's randperm(n) after manual_seed(seed): n numbers, n <= 214748363. */
void sampler_randperm(uint64_t seed, int64_t n, uint32_t *out);

#endif
