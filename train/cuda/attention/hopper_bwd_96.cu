/* hopper_bwd_96.cu - the backward pass of attention for compute capability 9.0, for heads of 72 to
 * 96 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_96(struct stream *st, const struct backward_call *call)
{
	hopper_columns_width<96>(st, call);
}
