/*
 * cut.h - which data rank owns which matrices of layers, for update rules that work on whole ones
 *
 * Newton-Schulz iterations (train/optim/muon.c) need all of a matrix, so the parts of a bucket
 * begin and end between matrices there, and what is balanced is not elements but FLOPs.
 */
#ifndef MODEL_CUT_H
#define MODEL_CUT_H

#include "lib/model/bucket.h"

/* FLOPs of one Newton-Schulz iteration of a [rows, columns] matrix: three GEMMs. */
double cut_flops(int64_t rows, int64_t columns);

/*
 * Cuts the buckets of s, which have equal parts, for a rule with whole matrices of layers, whose
 * states the other buckets do not keep. Where instances share the state of the optimizer, they so
 * cut each shard. A bucket of layers is cut between matrices into stretches
 * of about equal FLOPs, of which each data rank gets at most one: the heaviest goes to the data
 * rank with the least so far, so that a step's work is balanced though that of a bucket need not
 * be; that of experts which ranks share apart from the rest, since they have other data ranks. The
 * other buckets keep equal parts. How a bucket is cut depends on what all its data ranks share. The
 * table is that of the shards; shards_release frees what is added.
 */
void cut_whole(struct shards *s, const struct param *table);

#endif
