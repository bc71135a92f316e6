/* gain.c - the output of a layer times a number for each channel: what it holds */
#include "lib/model/block/gain.h"
#include "lib/model/block/rows.h"
#include "lib/model/work.h"

/* With sequence parallelism each tensor rank has the gradient of its own rows. */
static void
params(struct param_list *to, const struct model_config *c)
{
	const struct param_row rows[] = {
		{ "layer_gain.weight", GAIN_WEIGHT, true, { c->hidden_size }, SHARD_NONE, 0,
		    INIT_ONE, 0, { 0, SUM_TENSOR } },
	};

	state_params(to, rows, sizeof rows / sizeof *rows);
}

/* The gradient of the numbers reads the input. */
static void
buffers(struct buffer_list *to, const struct sizes *z)
{
	const struct buffer_row rows[] = {
		{ "gain input", GAIN_INPUT, LAYER, true, RESIDUAL, { z->rows, z->hidden } },
	};

	state_buffers(to, rows, sizeof rows / sizeof *rows);
}

static bool
in(const struct model_config *c, int64_t layer)
{
	return c->layer_gain && layer >= 0 && layer < c->num_layers;
}

/* Reads and writes the stream; backward it reads the gradient and the input, and writes one. */
static void
work(struct work *w, const struct sizes *z)
{
	double rows = (double)z->hidden * (double)z->rows;

	w->forward = (struct work_bytes){ .stream = 2 * rows, .kernels = 1 };
	w->backward = (struct work_bytes){ .stream = 3 * rows, .kernels = 1 };
}

const struct block_kind block_gain = { .name = "gain",
	.in = in,
	.params = params,
	.buffers = buffers,
	.input = GAIN_INPUT,
	.work = work };
