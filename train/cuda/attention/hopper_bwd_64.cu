/* hopper_bwd_64.cu - the backward pass of attention for compute capability 9.0, for heads of up to
 * 64 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_64(struct stream *st, const struct backward_call *call)
{
	hopper_columns_width<64>(st, call);
}
