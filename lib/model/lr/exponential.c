/* exponential.c - a tail of WSD that halves, shifted and stretched so that it ends at 0 */
#include "lib/model/lr.h"

#include <math.h>

double
lr_tail_exponential(double eta)
{
	return 2 * pow(0.5, eta) - 1;
}
