/* hopper_96.cu - attention for compute capability 9.0, for heads of 72 to 96 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_96(struct stream *st, const struct hopper_call *call)
{
	hopper_launch_width<96>(st, call);
}
