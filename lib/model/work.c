/* work.c - the work of blocks, and its sum over a model */
#include "lib/model/work.h"
#include "lib/model/block/sizes.h"

#include <string.h>

/* The sizes have been checked, so the product of three fits a double. */
void
work_gemm(struct work *w, int64_t rows, int64_t out, int64_t in)
{
	if (w->num_gemms == WORK_GEMMS)
		BUG("more than %d GEMMs in a block", WORK_GEMMS);
	w->gemm[w->num_gemms++] = (struct gemm_shape){ .rows = rows, .out = out, .in = in };
}

/* Forward the branch and the stream are read, the stream and the norm's output written; backward
 * the gradient of the output, the norm's input and the gradient of the stream are read, and the
 * last is written, after which sums of columns are finished. Source: docs/gpu.md 3. */
void
work_norm(struct work *w, const struct sizes *z)
{
	double rows = (double)z->hidden * (double)z->rows;

	w->forward.act += 2 * rows;
	w->forward.stream += 2 * rows;
	w->forward.kernels++;
	w->backward.act += rows;
	w->backward.stream += 3 * rows;
	w->backward.kernels += 2;
}

void
work_activation(struct work *w, const struct sizes *z, double outputs)
{
	bool gated = model_gated(z->model);

	w->forward.act += (gated ? 3 : 1) * outputs;
	w->forward.kernels += gated;
	w->backward.act += (gated ? 6 : 1) * outputs;
	w->backward.kernels += gated;
}

/* The norm of a branch is taken where the branch is read; backward two are read and one is
 * written. A multiplier is a pass over the branch, and one over its gradient. */
void
work_branch(struct work *w, const struct sizes *z)
{
	double rows = (double)z->hidden * (double)z->rows;

	if (model_post_norm(z->model)) {
		w->backward.act += 3 * rows;
		w->backward.kernels += 2;
	}
	if (z->model->residual_multiplier > 0) {
		w->forward.act += 2 * rows;
		w->forward.kernels++;
		w->backward.act += 2 * rows;
		w->backward.kernels++;
	}
}

/* Uses the sizes of the buffer rows, so that memory and time are computed from the same shapes. */
void
work_of(struct work *w, const struct block_kind *kind, const struct model_config *c,
    const struct layout *l, const struct train_shape *s)
{
	struct sizes z = sizes_of_rank(c, l, s, 0);

	memset(w, 0, sizeof *w);
	kind->work(w, &z);
}

/* In double, because a step of a large run exceeds 2^63. Three passes: one forward, two
 * backward. */
double
work_flops(const struct work *w)
{
	double sum = w->attention + w->recurrence;

	for (int i = 0; i < w->num_gemms; i++)
		sum += 2 * (double)w->gemm[i].rows * (double)w->gemm[i].out * (double)w->gemm[i].in;
	return 3 * sum;
}

/* As one rank would do it, on all samples at once. */
double
model_flops(const struct model_config *c, int64_t samples, int64_t seq_length, int64_t padded_vocab)
{
	struct train_shape s = { .seq_length = seq_length, .micro_batch_size = samples };
	struct layout one = { 1, 1, 1, 1 };
	struct sizes z = sizes_of_rank(c, &one, &s, 0);
	double sum = 0;

	z.vocab = padded_vocab;
	for (int64_t layer = -1; layer <= model_end(c); layer++)
		for (const struct block_kind *const *k = block_first(c, layer); *k;
		     k = block_next(k, c, layer)) {
			struct work w = { .num_gemms = 0 };

			(*k)->work(&w, &z);
			sum += work_flops(&w);
		}
	return sum;
}
