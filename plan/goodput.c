/* goodput.c - shares of a run's time, between failures at a constant rate */
#include "plan/goodput.h"

#include <math.h>

/* The root of x = 1 - exp(-x - d), by Newton's method from the right, where it never overshoots.
 * x is the interval, and d what a save holds up, in mean times between failures. */
double
goodput_interval(const struct failures *f)
{
	enum { ROUNDS = 100 };
	double d = f->rate * f->hold, x = 1;

	if (f->rate == 0)
		return INFINITY;
	if (f->hold == 0)
		return 0;
	for (int i = 0; i < ROUNDS && x > 0; i++) {
		double gap = -expm1(-x - d) - x, next = x + gap / -expm1(-x - d);

		if (next >= x)
			break;
		x = fmax(next, 0);
	}
	return x / f->rate;
}

void
goodput_of(const struct failures *f, double interval, struct goodput *out)
{
	double period = interval + f->hold, late = f->restart + f->readable - f->hold;

	*out = (struct goodput){ .steps = 1 };
	if (isinf(interval))
		return;
	out->steps = f->rate == 0
	    ? interval / period
	    : f->rate * interval * exp(-f->rate * late) / expm1(f->rate * period);
	out->saves = out->steps * f->hold / interval;
	out->starts = -expm1(-f->rate * f->restart);
	out->lost = fmax(1 - out->steps - out->saves - out->starts, 0);
}
