/* wsd.c - warm-up, stable, decay: the rate stays at --lr until the tail begins, which has a style
 * of its own */
#include "lib/model/lr.h"

double
lr_style_wsd(const struct lr_schedule *s, double samples)
{
	double start = (double)(s->decay_samples - s->wsd_decay_samples);

	if (samples <= start || s->wsd_decay_samples == 0)
		return lr_between(s, 1);
	return lr_between(s, lr_tail(s, (samples - start) / (double)s->wsd_decay_samples));
}
