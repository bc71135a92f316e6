/* hopper_96.cu - attention for compute capability 9.0, for heads of 72 to 96 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_96(struct stream *st, const struct hopper_call *call)
{
	bool cap = call->t.softcap > 0;

	if (call->t.q.dtype == DTYPE_BF16)
		(cap ? hopper_launch<bf16, 96, true> : hopper_launch<bf16, 96, false>)(st, call);
	else
		(cap ? hopper_launch<half, 96, true> : hopper_launch<half, 96, false>)(st, call);
}
