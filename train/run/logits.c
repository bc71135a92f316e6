/* logits.c - the logits of a position over the vocabulary, as the head leaves them */
#include "train/run/logits.h"

#include <math.h>

int64_t
logits_count_nonfinite(const struct logits *l)
{
	return dtype_count_nonfinite(l->data, l->type, l->count);
}

void
logits_double(const struct logits *l, int64_t first, int64_t count, double *out)
{
	const char *from = (const char *)l->data + (size_t)first * dtype_size(l->type);

	dtype_convert(out, DTYPE_F64, from, l->type, count);
	for (int64_t i = 0; l->softcap > 0 && i < count; i++)
		out[i] = l->softcap * tanh(out[i] / l->softcap);
}
