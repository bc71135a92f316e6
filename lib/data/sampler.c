/*
 * sampler.c - sample numbers of a data rank's micro batches
 *
 * `cyclic` draws its permutations as PyTorch does on the CPU: MT19937 seeded with only the epoch's
 * number, not the run's seed, and a swap with one of the remaining elements, by remainder. Without
 * sharding, Megatron-LM's permutation covers a few samples more than the epoch has groups, so that
 * some of its ranks read a batch more than others; here an epoch ends for all ranks together.
 */
#include "lib/base/mem.h"
#include "lib/base/rng.h"
#include "lib/data/sampler.h"

#include <stdlib.h>

/* Above this randperm draws 64 bits at a time. Source: aten/src/ATen/native/TensorFactories.cpp,
 * randperm_cpu. */
enum { RANDPERM_MAX = 214748363 };

struct sampler {
	struct sampler_config c;
	int64_t group;    /* samples of one micro batch on every rank */
	int64_t active;   /* samples per epoch */
	int64_t permuted; /* elements of perm */
	int64_t epoch;    /* the epoch of perm; -1: none */
	uint32_t *perm;   /* NULL with single */
};

/* n - 1 draws. The generator takes the lower half of the 64-bit seed. */
void
sampler_randperm(uint64_t seed, int64_t n, uint32_t *out)
{
	struct mt19937 rng;

	mt19937_seed(&rng, (uint32_t)seed);
	for (int64_t i = 0; i < n; i++)
		out[i] = (uint32_t)i;
	for (int64_t i = 0; i + 1 < n; i++) {
		int64_t j = i + mt19937_next(&rng) % (n - i);
		uint32_t t = out[i];

		out[i] = out[j];
		out[j] = t;
	}
}

/* The sizes of a group, an epoch, and a permutation. */
static int
measure(struct sampler *s, struct err *e)
{
	const struct sampler_config *c = &s->c;

	if (c->micro_batch_size < 1 || c->data_parallel_size < 1 ||
	    __builtin_mul_overflow(c->micro_batch_size, c->data_parallel_size, &s->group))
		return err_set(e,
		    "micro batches of %lld on %lld data ranks: both must be at least 1",
		    (long long)c->micro_batch_size, (long long)c->data_parallel_size);
	if (c->total < s->group)
		return err_set(e,
		    "%lld samples are fewer than one micro batch of %lld on each of %lld data "
		    "ranks",
		    (long long)c->total, (long long)c->micro_batch_size,
		    (long long)c->data_parallel_size);
	s->active = c->total - c->total % s->group;
	if (c->type == SAMPLER_SINGLE)
		return 0;
	s->permuted = c->no_data_sharding ? c->total - c->total % c->micro_batch_size
					  : s->active / c->data_parallel_size;
	if (s->permuted > RANDPERM_MAX)
		return err_set(e,
		    "the cyclic loader permutes %lld samples: at most %d; the single loader has no "
		    "limit",
		    (long long)s->permuted, RANDPERM_MAX);
	return 0;
}

/* cyclic holds 4 bytes per sample of the rank's bucket, or of all samples. */
struct sampler *
sampler_new(const struct sampler_config *c, struct err *e)
{
	struct sampler *s = mem_zalloc(1, sizeof *s);

	s->c = *c;
	s->epoch = -1;
	if (measure(s, e) < 0) {
		free(s);
		return NULL;
	}
	if (c->type == SAMPLER_CYCLIC)
		s->perm = mem_alloc((size_t)s->permuted, sizeof *s->perm);
	return s;
}

void
sampler_free(struct sampler *s)
{
	if (s)
		free(s->perm);
	free(s);
}

/* With single, the samples of whole groups; the rest is never read. */
int64_t
sampler_active(const struct sampler *s)
{
	return s->active;
}

/* The group of all ranks begins at `consumed`. */
static int
batch_in_order(const struct sampler *s, int64_t consumed, int64_t rank, int64_t *out, struct err *e)
{
	if (consumed > s->c.total - s->group)
		return err_set(e,
		    "%lld of %lld samples consumed: too few are left for a micro batch on every "
		    "data rank",
		    (long long)consumed, (long long)s->c.total);
	for (int64_t i = 0; i < s->c.micro_batch_size; i++)
		out[i] = consumed + rank * s->c.micro_batch_size + i;
	return 0;
}

/* From the permutation of the epoch that `consumed` lies in. */
static int
batch_permuted(struct sampler *s, int64_t consumed, int64_t rank, int64_t *out, struct err *e)
{
	int64_t at = consumed % s->active, ranks = s->c.data_parallel_size;

	if (at % s->group)
		return err_set(e,
		    "%lld samples consumed: the cyclic loader continues only at multiples of %lld, "
		    "the micro batches of all data ranks",
		    (long long)consumed, (long long)s->group);
	if (s->epoch != consumed / s->active) {
		s->epoch = consumed / s->active;
		sampler_randperm((uint64_t)s->epoch, s->permuted, s->perm);
	}
	for (int64_t i = 0; i < s->c.micro_batch_size; i++)
		out[i] = s->c.no_data_sharding ? s->perm[at + i * ranks + rank]
					       : rank * s->permuted + s->perm[at / ranks + i];
	return 0;
}

/* A rank outside the data-parallel size is a bug in the caller. */
int
sampler_batch(struct sampler *s, int64_t consumed, int64_t rank, int64_t *out, struct err *e)
{
	if (rank < 0 || rank >= s->c.data_parallel_size || consumed < 0)
		BUG("rank %lld of %lld after %lld samples", (long long)rank,
		    (long long)s->c.data_parallel_size, (long long)consumed);
	if (s->c.type == SAMPLER_SINGLE)
		return batch_in_order(s, consumed, rank, out, e);
	return batch_permuted(s, consumed, rank, out, e);
}
