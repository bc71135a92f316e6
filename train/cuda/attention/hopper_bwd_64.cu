/* hopper_bwd_64.cu - the backward pass of attention for compute capability 9.0, for heads of up to
 * 64 columns */
#include "train/cuda/attention/hopper_bwd.cuh"

void
hopper_attention_bwd_64(struct stream *st, const struct backward_call *call)
{
	bool drop = call->fwd.t.drop.p > 0;

	if (call->fwd.t.q.dtype == DTYPE_BF16)
		(drop ? hopper_launch_columns<bf16, 64, DROPPED>
		      : hopper_launch_columns<bf16, 64, PLAIN>)(st, call);
	else
		(drop ? hopper_launch_columns<half, 64, DROPPED>
		      : hopper_launch_columns<half, 64, PLAIN>)(st, call);
}
