/*
 * optim_options.c - the words of Muon's options and the polynomials that they stand for
 *
 * Sources of the polynomials: simple, Jordan 2024, kellerjordan.github.io/posts/muon; quintic,
 * Cesista, You & Jordan 2025, leloykun.github.io/ponder/muon-opt-coeffs; polar_express, Amsel et
 * al. 2025, arXiv:2505.16932.
 */
#include "lib/model/optim_options.h"

#include <stddef.h>

const char *const muon_scale_modes[] = { "spectral", "unit_rms_norm", "shape_scaling", NULL };
const char *const muon_coefficient_types[] = { "simple", "quintic", "polar_express", NULL };

const struct muon_polynomials muon_polynomials[] = {
	{ 1, false, { { 3.4445, -4.7750, 2.0315 } } },
	{ 5, false,
	    { { 4.0848, -6.8946, 2.9270 }, { 3.9505, -6.3029, 2.6377 }, { 3.7418, -5.5913, 2.3037 },
		{ 2.8769, -3.1427, 1.2046 }, { 2.8366, -3.0525, 1.2012 } } },
	{ 8, true,
	    { { 8.2051, -22.9019, 16.4607 }, { 4.0664, -2.8612, 0.5184 },
		{ 3.9096, -2.8234, 0.5250 }, { 3.2856, -2.4153, 0.4853 },
		{ 2.2779, -1.6198, 0.3985 }, { 1.8726, -1.2307, 0.3585 },
		{ 1.8564, -1.2132, 0.3568 }, { 1.8750, -1.2500, 0.3750 } } },
};

int
muon_check_steps(int type, int64_t steps, struct err *e)
{
	int n = muon_polynomials[type].count;

	if (muon_polynomials[type].last ? steps >= n : steps % n == 0)
		return 0;
	return err_set(e, "--muon-num-ns-steps %lld: must be %s %d with --muon-coefficient-type %s",
	    (long long)steps, muon_polynomials[type].last ? "at least" : "a multiple of", n,
	    muon_coefficient_types[type]);
}
