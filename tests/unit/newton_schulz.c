/* newton_schulz.c - iterations against singular values that are known, and the allowed steps */
#include "lib/model/optim_options.h"
#include "tests/check.h"
#include "train/optim/newton_schulz.h"

#include <math.h>
#include <string.h>

enum { SHORT = 6, LONG = 11, MOST = SHORT * LONG };

/* Orthonormal rows, by Gram-Schmidt. */
static void
orthonormal(int rows, int columns, double *out)
{
	for (int i = 0; i < rows; i++) {
		double *x = out + i * columns, norm = 0;

		for (int j = 0; j < columns; j++)
			x[j] = sin(1 + 7 * i + 3 * j + i * j);
		for (int k = 0; k < 2 * i; k++) {
			const double *y = out + k % i * columns;
			double dot = 0;

			for (int j = 0; j < columns; j++)
				dot += x[j] * y[j];
			for (int j = 0; j < columns; j++)
				x[j] -= dot * y[j];
		}
		for (int j = 0; j < columns; j++)
			norm += x[j] * x[j];
		for (int j = 0; j < columns; j++)
			x[j] /= sqrt(norm);
	}
}

/* A [SHORT, LONG] matrix of these singular values, or its transpose. */
static void
matrix_of(const double value[SHORT], bool tall, double *out)
{
	double u[SHORT * SHORT], v[SHORT * LONG];

	orthonormal(SHORT, SHORT, u);
	orthonormal(SHORT, LONG, v);
	memset(out, 0, MOST * sizeof *out);
	for (int k = 0; k < SHORT; k++)
		for (int i = 0; i < SHORT; i++)
			for (int j = 0; j < LONG; j++)
				out[tall ? j * SHORT + i : i * LONG + j] +=
				    u[k * SHORT + i] * value[k] * v[k * LONG + j];
}

/* The largest difference of a run from the same polynomials of the singular values, which a
 * 1 x 1 matrix gives. */
static double
difference(int type, int64_t steps, enum dtype dtype, bool tall)
{
	/* in 16 bits small ones drown in rounding errors, which are amplified like them */
	static const double all[2][SHORT] = { { 0.9, 0.3, 0.1, 0.02, 0.005, 0 },
		{ 0.6, 0.5, 0.4, 0.3, 0.25, 0.2 } };
	const double *value = all[dtype != DTYPE_F64];
	struct device_config config = { .dtype = dtype, .num_threads = 1 };
	struct err e;
	struct device *d = backend_cpu.open(&config, &e);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	double x[MOST], next[MOST], gram[SHORT * SHORT], even[SHORT * SHORT], want[MOST],
	    made[SHORT], most = 0;
	int rows = tall ? LONG : SHORT, columns = tall ? SHORT : LONG;
	struct newton_schulz s = { .ops = st->ops, .stream = st, .type = type, .steps = steps };
	struct tensor y;

	for (int i = 0; i < SHORT; i++) {
		double one[4] = { value[i] };

		s.x = tensor_2d(&one[0], DTYPE_F64, 1, 1);
		s.next = tensor_2d(&one[1], DTYPE_F64, 1, 1);
		s.gram = tensor_2d(&one[2], DTYPE_F64, 1, 1);
		s.even = tensor_2d(&one[3], DTYPE_F64, 1, 1);
		y = newton_schulz(&s);
		made[i] = *(double *)y.data;
		CHECK(value[i] < 0.01 || (made[i] > 0.6 && made[i] < 1.3));
	}
	matrix_of(made, tall, want);
	matrix_of(value, tall, next);
	dtype_convert(x, dtype, next, DTYPE_F64, MOST);
	s.x = tensor_2d(x, dtype, rows, columns);
	s.next = tensor_2d(next, dtype, rows, columns);
	s.gram = tensor_2d(gram, dtype, SHORT, SHORT);
	s.even = tensor_2d(even, dtype, SHORT, SHORT);
	y = newton_schulz(&s);
	for (int i = 0; i < MOST; i++) {
		double got;

		dtype_convert(
		    &got, DTYPE_F64, (char *)y.data + (size_t)i * dtype_size(dtype), dtype, 1);
		most = fmax(most, fabs(got - want[i]));
	}
	backend_cpu.close(d);
	return most;
}

int
main(void)
{
	static const int64_t steps[] = { 5, 5, 8 };
	struct err e;

	for (int type = 0; muon_coefficient_types[type]; type++)
		for (int tall = 0; tall < 2; tall++) {
			CHECK(difference(type, steps[type], DTYPE_F64, tall) < 1e-12);
			CHECK(difference(type, steps[type], DTYPE_BF16, tall) < 0.1);
			CHECK(difference(type, steps[type], DTYPE_BF16, tall) > 1e-4);
		}
	CHECK(muon_check_steps(0, 3, &e) == 0 && muon_check_steps(1, 10, &e) == 0 &&
	    muon_check_steps(2, 9, &e) == 0);
	CHECK(muon_check_steps(1, 6, &e) < 0);
	CHECK_STR(e.msg,
	    "--muon-num-ns-steps 6: must be a multiple of 5 with --muon-coefficient-type quintic");
	CHECK(muon_check_steps(2, 5, &e) < 0);
	CHECK_STR(e.msg,
	    "--muon-num-ns-steps 5: must be at least 8 with --muon-coefficient-type "
	    "polar_express");
	return check_done();
}
