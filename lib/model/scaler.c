/*
 * scaler.c - dynamic loss scaling of fp16
 */
#include "lib/model/scaler.h"

void
scaler_update(struct scaler *s, bool overflow)
{
	if (!s->dynamic)
		return;
	if (overflow) {
		s->growth = 0;
		if (--s->hysteresis_left <= 0)
			s->scale = s->scale / 2 > s->min_scale ? s->scale / 2 : s->min_scale;
	} else if (++s->growth == s->growth_interval) {
		s->growth = 0;
		s->hysteresis_left = s->hysteresis;
		s->scale *= 2;
	}
}
