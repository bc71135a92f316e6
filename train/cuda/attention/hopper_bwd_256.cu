/* hopper_bwd_256.cu - the backward pass of attention for compute capability 9.0, for heads of 136
 * to 256 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_256(struct stream *st, const struct backward_call *call)
{
	hopper_columns_width<256>(st, call);
}
