/* constant.c - the rate stays at --lr, and weight decay at its last value */
#include "lib/model/lr.h"

double
lr_style_constant(const struct lr_schedule *s, double samples)
{
	(void)samples;
	return s->lr;
}

double
wd_style_constant(const struct lr_schedule *s, double rho)
{
	(void)rho;
	return s->end_weight_decay;
}
