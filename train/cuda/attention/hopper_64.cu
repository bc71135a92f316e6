/* hopper_64.cu - attention for compute capability 9.0, for heads of up to 64 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_64(struct stream *st, const struct hopper_call *call)
{
	bool drop = call->t.drop.p > 0;

	if (call->t.q.dtype == DTYPE_BF16)
		(drop ? hopper_launch<bf16, 64, DROPPED> : hopper_launch<bf16, 64, PLAIN>)(st,
		    call);
	else
		(drop ? hopper_launch<half, 64, DROPPED> : hopper_launch<half, 64, PLAIN>)(st,
		    call);
}
