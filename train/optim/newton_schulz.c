/*
 * newton_schulz.c - Newton-Schulz iterations on the shorter side
 *
 * With wide X one step is A = X X^T, B = b A + c A A, X = a X + B X; with tall X all is transposed.
 */
#include "train/optim/newton_schulz.h"

enum { SETS_MAX = 8 };

const char *const newton_schulz_types[] = { "simple", "quintic", "polar_express", NULL };

/* Polynomials in order of steps. With `last` there are at least as many steps as polynomials, and
 * the last one is repeated; without it the number of steps is a multiple of theirs. */
static const struct {
	int count;
	bool last;
	double set[SETS_MAX][3];
} polynomials[] = {
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
newton_schulz_check(int type, int64_t steps, struct err *e)
{
	int n = polynomials[type].count;

	if (polynomials[type].last ? steps >= n : steps % n == 0)
		return 0;
	return err_set(e, "--muon-num-ns-steps %lld: must be %s %d with --muon-coefficient-type %s",
	    (long long)steps, polynomials[type].last ? "at least" : "a multiple of", n,
	    newton_schulz_types[type]);
}

/* From x to next. */
static void
iterate(const struct newton_schulz *s, const double p[3])
{
	bool wide = s->x.shape[0] <= s->x.shape[1];
	struct gemm square = {
		.c = s->gram, .a = s->x, .b = s->x, .trans_a = !wide, .trans_b = wide, .alpha = 1
	};
	struct gemm even = {
		.c = s->even, .a = s->gram, .b = s->gram, .alpha = p[2], .beta = p[1]
	};
	struct gemm odd = { .c = s->next,
		.a = wide ? s->even : s->x,
		.b = wide ? s->x : s->even,
		.alpha = 1,
		.beta = p[0] };

	s->ops->gemm(s->stream, &square);
	s->ops->cast(s->stream, &(struct pair){ s->even, s->gram });
	s->ops->gemm(s->stream, &even);
	s->ops->cast(s->stream, &(struct pair){ s->next, s->x });
	s->ops->gemm(s->stream, &odd);
}

struct tensor
newton_schulz(const struct newton_schulz *s)
{
	struct newton_schulz at = *s;
	int n = polynomials[s->type].count;
	bool last = polynomials[s->type].last;

	for (int64_t i = 0; i < s->steps; i++) {
		struct tensor x = at.x;

		iterate(&at, polynomials[s->type].set[!last ? i % n : i < n ? i : n - 1]);
		at.x = at.next;
		at.next = x;
	}
	return at.x;
}
