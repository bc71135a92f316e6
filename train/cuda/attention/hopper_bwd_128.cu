/* hopper_bwd_128.cu - the backward pass of attention for compute capability 9.0, for heads of 104
 * to 128 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_128(struct stream *st, const struct backward_call *call)
{
	hopper_columns_width<128>(st, call);
}
