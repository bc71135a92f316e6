/* linear.c - straight lines */
#include "lib/model/lr.h"

double
lr_style_linear(const struct lr_schedule *s, double samples)
{
	return lr_between(s, 1 - lr_progress(s, samples));
}

double
lr_tail_linear(double eta)
{
	return 1 - eta;
}

double
wd_style_linear(const struct lr_schedule *s, double rho)
{
	return wd_between(s, rho);
}
