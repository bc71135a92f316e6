/*
 * newton_schulz.h - the nearest matrix with orthonormal rows or columns, by GEMMs alone
 *
 * X / |X| goes through odd polynomials a x + b x^3 + c x^5 of its singular values, which take those
 * in (0, 1] to near 1 and leave the singular vectors alone (lib/model/optim_options.h has them).
 */
#ifndef TRAIN_OPTIM_NEWTON_SCHULZ_H
#define TRAIN_OPTIM_NEWTON_SCHULZ_H

#include "train/ops.h"

struct newton_schulz {
	const struct ops *ops;
	struct stream *stream;
	struct tensor x;                /* [m, n] of Frobenius norm 1 at most; overwritten */
	struct tensor next, gram, even; /* scratch as x; [k, k] twice, k the shorter side */
	int type;
	int64_t steps; /* as muon_check_steps allows */
};

/* Queues the steps; returns x or next, whichever the result is in. */
struct tensor newton_schulz(const struct newton_schulz *s);

#endif
