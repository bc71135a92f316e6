/* npydiff.c - npydiff A.npy B.npy TOLERANCE: the largest |a - b| over the largest |b|; exit 1 when
 * it exceeds the tolerance */
#include "lib/data/npy.h"

#include <math.h>
#include <stdlib.h>

/* Element i of a floating array, as a double. */
static double
at(const struct npy *a, int64_t i)
{
	double d;

	dtype_convert(
	    &d, DTYPE_F64, (const char *)a->data + (size_t)i * dtype_size(a->dtype), a->dtype, 1);
	return d;
}

int
main(int argc, char **argv)
{
	struct npy a, b;
	struct err e;
	double worst = 0, scale = 0;

	if (argc != 4) {
		fprintf(stderr, "usage: npydiff A.npy B.npy TOLERANCE\n");
		return 2;
	}
	if (npy_open(&a, argv[1], &e) < 0 || npy_open(&b, argv[2], &e) < 0) {
		fprintf(stderr, "npydiff: %s\n", e.msg);
		return 2;
	}
	if (a.count != b.count || !dtype_is_float(a.dtype) || !dtype_is_float(b.dtype)) {
		fprintf(stderr, "npydiff: arrays of different sizes, or not floating\n");
		return 2;
	}
	for (int64_t i = 0; i < a.count; i++) {
		worst = fmax(worst, fabs(at(&a, i) - at(&b, i)));
		scale = fmax(scale, fabs(at(&b, i)));
		if (isnan(at(&a, i)))
			worst = INFINITY;
	}
	printf("%.3g\n", worst / scale);
	npy_close(&a);
	npy_close(&b);
	return !(worst <= strtod(argv[3], NULL) * scale);
}
