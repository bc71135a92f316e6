/* inverse_square_root.c - the rate falls as 1 / sqrt(samples), and not below --min-lr */
#include "lib/model/lr.h"

#include <math.h>

double
lr_style_inverse_square_root(const struct lr_schedule *s, double samples)
{
	return fmax(
	    s->min_lr, s->lr * pow(fmax(s->warmup_samples, 1), 0.5) / pow(fmax(samples, 1), 0.5));
}
