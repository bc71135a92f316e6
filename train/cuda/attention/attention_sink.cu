/*
 * attention_sink.cu - the gradients of sinks of attention, after any of its backward passes
 *
 * A block a head: each thread adds every CU_THREADS-th row of each sample, samples in their order,
 * and then the threads' sums are added. So the order follows from the shapes alone. Source:
 * docs/math.md 2.5.
 */
#include "train/cuda/kernel.cuh"

static __global__ void
__launch_bounds__(CU_THREADS)
    sink_kernel(const struct tensor lse, const struct tensor delta, const float *sink, float *dsink)
{
	int head = blockIdx.x, heads = gridDim.x;
	float t = sink[head], sum = 0;

	for (int64_t line = head; line < lse.shape[0]; line += heads) {
		const float *l = row_of<float>(lse, line), *d = row_of<float>(delta, line);

#pragma unroll 4
		for (int64_t i = threadIdx.x; i < lse.shape[1]; i += CU_THREADS)
			sum += expf(t - l[i]) * d[i];
	}
	sum = block_sum(sum);
	if (threadIdx.x == 0)
		dsink[head] -= sum;
}

void
attention_sink_bwd(struct stream *st, const struct attention_grad *g)
{
	sink_kernel<<<(unsigned)g->fwd.num_heads, CU_THREADS, 0, cu_handle(st)>>>(
	    g->fwd.lse, g->delta, (const float *)g->fwd.sink.data, (float *)g->dsink.data);
	cu_launched(st, "attention_bwd");
}
