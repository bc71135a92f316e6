/* hopper_96.cu - attention for compute capability 9.0, for heads of 72 to 96 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_96(struct stream *st, const struct hopper_call *call)
{
	bool cap = call->t.softcap > 0, drop = call->t.drop.p > 0;

	if (call->t.q.dtype == DTYPE_BF16)
		(cap           ? hopper_launch<bf16, 96, CAPPED>
			: drop ? hopper_launch<bf16, 96, DROPPED>
			       : hopper_launch<bf16, 96, PLAIN>)(st, call);
	else
		(cap           ? hopper_launch<half, 96, CAPPED>
			: drop ? hopper_launch<half, 96, DROPPED>
			       : hopper_launch<half, 96, PLAIN>)(st, call);
}
