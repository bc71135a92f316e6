/*
 * newton_schulz.h - the nearest matrix with orthonormal rows or columns, by GEMMs alone
 *
 * X / |X| goes through odd polynomials a x + b x^3 + c x^5 of its singular values, which take those
 * in (0, 1] to near 1 and leave the singular vectors alone. Sources of the polynomials: simple,
 * Jordan 2024, kellerjordan.github.io/posts/muon; quintic, Cesista, You & Jordan 2025,
 * leloykun.github.io/ponder/muon-opt-coeffs; polar_express, Amsel et al. 2025, arXiv:2505.16932.
 */
#ifndef TRAIN_OPTIM_NEWTON_SCHULZ_H
#define TRAIN_OPTIM_NEWTON_SCHULZ_H

#include "lib/base/err.h"
#include "train/ops.h"

/* By the value of --muon-coefficient-type; ended by NULL. */
extern const char *const newton_schulz_types[];

struct newton_schulz {
	const struct ops *ops;
	struct stream *stream;
	struct tensor x;                /* [m, n] of Frobenius norm 1 at most; overwritten */
	struct tensor next, gram, even; /* scratch as x; [k, k] twice, k the shorter side */
	int type;
	int64_t steps; /* as newton_schulz_check allows */
};

/* 0, or -1 with the numbers of steps that polynomials of this type are made for. */
int newton_schulz_check(int type, int64_t steps, struct err *e);
/* Queues the steps; returns x or next, whichever the result is in. */
struct tensor newton_schulz(const struct newton_schulz *s);

#endif
