/*
 * sampler.h - which samples a data rank reads at which point of a run (--dataloader-type)
 *
 * A function of only the consumed samples, so that a resumed run continues where the stopped one
 * ended, and a run under another layout reads the same global batches with `single`. Source:
 * Megatron-LM megatron/training/datasets/data_samplers.py, MegatronPretrainingSampler and
 * MegatronPretrainingRandomSampler; PyTorch's randperm on the CPU.
 */
#ifndef DATA_SAMPLER_H
#define DATA_SAMPLER_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * single: in order, in groups of micro_batch_size * data_parallel_size, rank after rank. cyclic:
 * each epoch is a permutation seeded by its number, without end. Sharded, each rank permutes its
 * own contiguous bucket; otherwise all ranks share one permutation.
 */
enum sampler_type { SAMPLER_SINGLE, SAMPLER_CYCLIC };

struct sampler_config {
	enum sampler_type type;
	bool no_data_sharding; /* cyclic only */
	int64_t total;         /* samples of the split */
	int64_t micro_batch_size, data_parallel_size;
};

/* Holds the permutation of the last requested epoch; one thread at a time. */
struct sampler;

/* Fewer samples than one group, or more than randperm's 32-bit method covers (214748363 per
 * permutation), is an error. */
struct sampler *sampler_new(const struct sampler_config *c, struct err *e);
void sampler_free(struct sampler *s);
/* The samples of an epoch, a multiple of the group; the rest of the split is skipped. */
int64_t sampler_active(const struct sampler *s);
/*
 * The micro batch that data rank `rank` reads when `consumed` samples have been read by all ranks:
 * micro_batch_size sample numbers. consumed advances by the group; with cyclic it must be a
 * multiple of it. -1 with a reason: `single` has no group left there, or consumed is not a multiple
 * of it.
 */
int sampler_batch(struct sampler *s, int64_t consumed, int64_t rank, int64_t *out, struct err *e);
/* PyTorch's randperm(n) after manual_seed(seed): n numbers, n <= 214748363. */
void sampler_randperm(uint64_t seed, int64_t n, uint32_t *out);

#endif
