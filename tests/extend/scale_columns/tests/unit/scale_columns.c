/* scale_columns.c - against the formula, and the gradients against central differences */
#include "tests/check.h"
#include "train/ops.h"

enum { ROWS = 3, COLUMNS = 5, N = ROWS * COLUMNS };

/* The sum of dy y of the forward pass. */
static double
objective(struct stream *st, double *x, double *g, const double *dy)
{
	double y[N], sum = 0;
	struct scale_columns a = { .y = tensor_2d(y, DTYPE_F64, ROWS, COLUMNS),
		.x = tensor_2d(x, DTYPE_F64, ROWS, COLUMNS),
		.g = tensor_1d(g, DTYPE_F64, COLUMNS) };

	st->ops->scale_columns(st, &a);
	for (int i = 0; i < N; i++) {
		CHECK_NEAR(y[i], x[i] * g[i % COLUMNS], 1e-15);
		sum += dy[i] * y[i];
	}
	return sum;
}

/* Of an element that the objective depends on. */
static void
check_gradient(struct stream *st, double *x, double *g, const double *dy, double *at, double grad)
{
	double was = *at, up, down;

	*at = was + 1e-5;
	up = objective(st, x, g, dy);
	*at = was - 1e-5;
	down = objective(st, x, g, dy);
	*at = was;
	CHECK_NEAR(grad, (up - down) / 2e-5, 1e-8);
}

int
main(void)
{
	struct device_config config = { .num_threads = 2, .dtype = DTYPE_F64 };
	struct err e;
	struct device *d = backend_cpu.open(&config, &e);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	double x[N], dy[N], g[COLUMNS], dg[COLUMNS] = { 0 }, dx[N];
	struct scale_columns a = { .y = tensor_2d(dx, DTYPE_F64, ROWS, COLUMNS),
		.x = tensor_2d(dy, DTYPE_F64, ROWS, COLUMNS),
		.g = tensor_1d(g, DTYPE_F64, COLUMNS),
		.input = tensor_2d(x, DTYPE_F64, ROWS, COLUMNS),
		.dg = tensor_1d(dg, DTYPE_F64, COLUMNS) };

	for (int i = 0; i < N; i++) {
		x[i] = sin(i);
		dy[i] = cos(3 * i);
		g[i % COLUMNS] = 1 + 0.1 * i;
	}
	st->ops->scale_columns(st, &a);
	for (int i = 0; i < N; i++)
		check_gradient(st, x, g, dy, &x[i], dx[i]);
	for (int i = 0; i < COLUMNS; i++)
		check_gradient(st, x, g, dy, &g[i], dg[i]);
	backend_cpu.close(d);
	return check_done();
}
