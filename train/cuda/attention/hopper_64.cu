/* hopper_64.cu - attention for compute capability 9.0, for heads of up to 64 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_64(struct stream *st, const struct hopper_call *call)
{
	hopper_launch_width<64>(st, call);
}
