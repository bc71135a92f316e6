/*
 * provenance.h - where a checkpoint comes from, as lines of its state.conf
 *
 *   provenance_0 import --dtype bf16; Hugging Face directory 3f2c1a0b9d8e7f60; mikoshi 0.1.0
 *
 *   provenance_1 average --last 2; masters; checkpoint 3f2c1a0b9d8e7f60 0.5, checkpoint
 *   77aa1a0b9d8e7f60 0.5; mikoshi 0.1.0
 *
 * The verb and the options that were given, the format of each source and its sum
 * (source_kind.hash: of a checkpoint, the XXH3-64 of manifest.tsv), the release. Each copy adds a
 * line.
 */
#ifndef CKPT_PROVENANCE_H
#define CKPT_PROVENANCE_H

#include "lib/base/opt.h"
#include "lib/ckpt/source.h"

/* What a checkpoint is made of: the weight of each source and a word of how they were read are in
 * the line where they are not NULL. */
struct provenance_sources {
	struct source *const *from; /* [count] */
	int count;
	const double *weight; /* [count] */
	const char *how;
};

/* Appends the line of a verb to a state that is a copy of a source's, or edited. */
void provenance_add(struct str *state, const char *verb, const struct opt_parse *given,
    const struct provenance_sources *of);

#endif
