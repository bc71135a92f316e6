/*
 * optim_options.h - what an update rule is told besides the rates, and the words of Muon's options
 */
#ifndef LIB_MODEL_OPTIM_OPTIONS_H
#define LIB_MODEL_OPTIM_OPTIONS_H

#include "lib/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct muon_options {
	double momentum, extra_scale_factor;
	bool nesterov;
	int scale_mode, coefficient_type;
	int64_t num_ns_steps;
};

struct qk_clip {
	double alpha, threshold;
};

struct optim_options {
	int kind; /* of optim_rules */
	double beta1, beta2, eps, momentum;
	bool decoupled_weight_decay;
	double clip_grad;
	struct muon_options muon;
	struct qk_clip qk_clip;
};

/* --muon-scale-mode. */
enum muon_scale_mode { MUON_SPECTRAL, MUON_UNIT_RMS_NORM, MUON_SHAPE };
/* Their words, ended by NULL. */
extern const char *const muon_scale_modes[];
/* By the value of --muon-coefficient-type; ended by NULL. */
extern const char *const muon_coefficient_types[];

/* Odd polynomials a x + b x^3 + c x^5 in the order of the steps of a Newton-Schulz iteration. With
 * `last` there are at least as many steps as polynomials, and the last one is repeated; without it
 * the number of steps is a multiple of theirs. */
enum { MUON_POLYNOMIALS_MAX = 8 };
struct muon_polynomials {
	int count;
	bool last;
	double set[MUON_POLYNOMIALS_MAX][3];
};
/* By the value of --muon-coefficient-type. */
extern const struct muon_polynomials muon_polynomials[];

/* 0, or -1 with the numbers of steps that polynomials of this type are made for. */
int muon_check_steps(int type, int64_t steps, struct err *e);

#endif
