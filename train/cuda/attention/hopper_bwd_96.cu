/* hopper_bwd_96.cu - the backward pass of attention for compute capability 9.0, for heads of 72 to
 * 96 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_96(struct stream *st, const struct backward_call *call)
{
	bool cap = call->fwd.t.softcap > 0, drop = call->fwd.t.drop.p > 0;

	if (call->fwd.t.q.dtype == DTYPE_BF16)
		(cap           ? hopper_launch_columns<bf16, 96, CAPPED>
			: drop ? hopper_launch_columns<bf16, 96, DROPPED>
			       : hopper_launch_columns<bf16, 96, PLAIN>)(st, call);
	else
		(cap           ? hopper_launch_columns<half, 96, CAPPED>
			: drop ? hopper_launch_columns<half, 96, DROPPED>
			       : hopper_launch_columns<half, 96, PLAIN>)(st, call);
}
