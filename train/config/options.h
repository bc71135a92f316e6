/*
 * options.h - the option table of mtrain
 */
#ifndef TRAIN_CONFIG_OPTIONS_H
#define TRAIN_CONFIG_OPTIONS_H

#include "train/config/train_config.h"

/* What the ranks must have in common of an option. */
enum agree_on {
	AGREE_VALUE,
	AGREE_PRESENCE, /* a path: hosts may differ, but it is given to all or to none */
	AGREE_NOTHING,  /* files that rank 0 writes alone, without a wait */
	AGREE_UNSORTED, /* a string or list of which nothing is said: a test fails */
};
/* The tag of an option's row says it, beside those of models. */
enum { AGREE_SHIFT = 16 };
#define AGREE_TAG(on) ((unsigned)(on) + 1) << AGREE_SHIFT

extern const struct opt mtrain_opts[];
extern const char *const mtrain_backends[], *const mtrain_attention_backends[];

#endif
