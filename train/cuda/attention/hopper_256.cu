/* hopper_256.cu - attention for compute capability 9.0, for heads of 136 to 256 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_256(struct stream *st, const struct hopper_call *call)
{
	bool cap = call->t.softcap > 0;

	if (call->t.q.dtype == DTYPE_BF16)
		(cap ? hopper_launch<bf16, 256, CAPPED> : hopper_launch<bf16, 256, PLAIN>)(st,
		    call);
	else
		(cap ? hopper_launch<half, 256, CAPPED> : hopper_launch<half, 256, PLAIN>)(st,
		    call);
}
