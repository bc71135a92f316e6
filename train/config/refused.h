/*
 * refused.h - the options of Megatron-LM that mtrain knows but does not have, each with its reason
 *
 * A reason is "use ..." where ours has another name, and ends in "; leave it out" where a run
 * without the option computes the same thing; the others would change what is computed or where it
 * fits.
 */
#ifndef TRAIN_CONFIG_REFUSED_H
#define TRAIN_CONFIG_REFUSED_H

#include "lib/base/opt.h"

/* For opt_parse.refused; ended by a NULL name. */
extern const struct opt_refused mtrain_refused[];

#endif
