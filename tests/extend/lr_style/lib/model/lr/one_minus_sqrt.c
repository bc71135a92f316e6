/* one_minus_sqrt.c - 1 less the root. Source: Hagele et al. 2024 arXiv:2405.18392, section 4 */
#include "lib/model/lr.h"

#include <math.h>

double
lr_style_one_minus_sqrt(const struct lr_schedule *s, double samples)
{
	return lr_between(s, 1 - sqrt(lr_progress(s, samples)));
}
