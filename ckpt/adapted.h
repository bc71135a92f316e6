/*
 * adapted.h - a model with an adapter of PEFT merged into its weights, as a source (derived.h)
 */
#ifndef CKPT_ADAPTED_H
#define CKPT_ADAPTED_H

#include "ckpt/derived.h"

struct adapted_rule {
	const char *adapter; /* its directory */
	bool base_is_residual;
	/* the output table becomes one of its own, where an adapter touches one table of two that
	 * are one */
	bool untie;
};

/* derived_job.rule is a struct adapted_rule. W + s B A is computed in fp64 and rounded once. */
extern const struct derived_kind derived_adapted;

#endif
