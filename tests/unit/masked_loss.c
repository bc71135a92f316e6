/* masked_loss.c - logits of labels that a mask leaves out get a gradient of exactly 0, whatever
 * they are, and the others the gradient that they have alone */
#include "tests/check.h"
#include "train/backend.h"
#include "train/ops.h"

#include <string.h>

enum { ROWS = 3, COLUMNS = 4 };

/* The gradients of all rows under a mask. */
static void
gradients(const float mask[ROWS], double logits[ROWS][COLUMNS])
{
	static const double start[ROWS][COLUMNS] = { { 1, -2, 3, 0 }, { 700, -700, 1e300, 0 },
		{ 0, 0, 5, 1 } };
	struct device_config config = { .dtype = DTYPE_F64, .num_threads = 1 };
	struct err e;
	struct device *d = backend_cpu.open(&config, &e);
	struct stream *st = backend_cpu.stream(d, STREAM_COMPUTE);
	int32_t label[ROWS] = { 2, 1, 0 };
	float copy[ROWS];
	double loss[ROWS], zloss[ROWS];
	struct xent x = { .logits = tensor_2d(logits, DTYPE_F64, ROWS, COLUMNS),
		.labels = tensor_1d(label, DTYPE_I32, ROWS),
		.mask = tensor_1d(copy, DTYPE_F32, ROWS),
		.parts = 1,
		.loss = tensor_1d(loss, DTYPE_F64, ROWS),
		.zloss = tensor_1d(zloss, DTYPE_F64, ROWS),
		.valid_columns = COLUMNS,
		.grad_scale = 8 };

	memcpy(copy, mask, sizeof copy);
	memcpy(logits, start, sizeof start);
	st->ops->xent_loss(st, &x);
	backend_cpu.close(d);
}

int
main(void)
{
	static const float all[ROWS] = { 1, 1, 1 }, some[ROWS] = { 1, 0, 0 };
	double whole[ROWS][COLUMNS], masked[ROWS][COLUMNS];

	gradients(all, whole);
	gradients(some, masked);
	CHECK(!memcmp(whole[0], masked[0], sizeof whole[0]));
	for (int i = 1; i < ROWS; i++)
		for (int k = 0; k < COLUMNS; k++)
			CHECK(masked[i][k] == 0);
	CHECK(whole[1][2] != 0 && whole[2][2] != 0);
	return check_done();
}
