/* minus_sqrt.c - a tail of WSD that falls steeply at first. Source: Hagele 2024, arXiv:2405.18392
 */
#include "lib/model/lr.h"

#include <math.h>

double
lr_tail_minus_sqrt(double eta)
{
	return 1 - sqrt(eta);
}
