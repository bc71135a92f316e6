/* hopper_128.cu - attention for compute capability 9.0, for heads of 104 to 128 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_128(struct stream *st, const struct hopper_call *call)
{
	bool cap = call->t.softcap > 0, drop = call->t.drop.p > 0;

	if (call->t.q.dtype == DTYPE_BF16)
		(cap           ? hopper_launch<bf16, 128, CAPPED>
			: drop ? hopper_launch<bf16, 128, DROPPED>
			       : hopper_launch<bf16, 128, PLAIN>)(st, call);
	else
		(cap           ? hopper_launch<half, 128, CAPPED>
			: drop ? hopper_launch<half, 128, DROPPED>
			       : hopper_launch<half, 128, PLAIN>)(st, call);
}

/* Whether this GPU's code has the instructions: of a build for sm_90 without them too. */
static __device__ const int code = SM90A_CODE;

bool
hopper_attention_present(void)
{
	int present = 0;

	return cudaMemcpyFromSymbol(&present, code, sizeof present) == cudaSuccess && present;
}
