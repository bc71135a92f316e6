/* hopper_256.cu - attention for compute capability 9.0, for heads of 136 to 256 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_256(struct stream *st, const struct hopper_call *call)
{
	hopper_launch_width<256>(st, call);
}
