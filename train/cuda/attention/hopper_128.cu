/* hopper_128.cu - attention for compute capability 9.0, for heads of 104 to 128 columns */
#include "train/cuda/attention/hopper_fwd.cuh"

void
hopper_attention_128(struct stream *st, const struct hopper_call *call)
{
	hopper_launch_width<128>(st, call);
}

/* Whether this GPU's code has the instructions: of a build for sm_90 without them too. */
static __device__ const int code = SM90A_CODE;

bool
hopper_attention_present(void)
{
	int present = 0;

	return cudaMemcpyFromSymbol(&present, code, sizeof present) == cudaSuccess && present;
}
