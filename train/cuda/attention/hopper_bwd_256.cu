/* hopper_bwd_256.cu - the backward pass of attention for compute capability 9.0, for heads of 136
 * to 256 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_256(struct stream *st, const struct backward_call *call)
{
	bool cap = call->fwd.t.softcap > 0;

	if (call->fwd.t.q.dtype == DTYPE_BF16)
		(cap ? hopper_launch_columns<bf16, 256, CAPPED>
		     : hopper_launch_columns<bf16, 256, PLAIN>)(st, call);
	else
		(cap ? hopper_launch_columns<half, 256, CAPPED>
		     : hopper_launch_columns<half, 256, PLAIN>)(st, call);
}
