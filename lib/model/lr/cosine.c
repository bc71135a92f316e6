/* cosine.c - half a period of the cosine */
#include "lib/model/lr.h"

#include <math.h>

#define PI 3.14159265358979323846

double
lr_style_cosine(const struct lr_schedule *s, double samples)
{
	return lr_between(s, (1 + cos(PI * lr_progress(s, samples))) / 2);
}

double
lr_tail_cosine(double eta)
{
	return (1 + cos(PI * eta)) / 2;
}

double
wd_style_cosine(const struct lr_schedule *s, double rho)
{
	return wd_between(s, (1 + cos(PI * (1 - rho))) / 2);
}
