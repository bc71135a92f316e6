/* sawtooth.c - a style that no list has */
#include "lib/model/lr.h"

double
lr_style_sawtooth(const struct lr_schedule *s, double samples)
{
	return lr_between(s, 1 - lr_progress(s, samples));
}
