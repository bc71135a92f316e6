/*
 * newton_schulz.c - Newton-Schulz iterations on the shorter side
 *
 * With wide X one step is A = X X^T, B = b A + c A A, X = a X + B X; with tall X all is transposed.
 */
#include "lib/model/optim_options.h"
#include "train/optim/newton_schulz.h"

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
	int n = muon_polynomials[s->type].count;
	bool last = muon_polynomials[s->type].last;

	for (int64_t i = 0; i < s->steps; i++) {
		struct tensor x = at.x;

		iterate(&at, muon_polynomials[s->type].set[!last ? i % n : i < n ? i : n - 1]);
		at.x = at.next;
		at.next = x;
	}
	return at.x;
}
