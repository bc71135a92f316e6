/*
 * stacks.c - the constants of other training programs
 *
 * What mplan fit finds from published steps (docs/planning.md 8), less what these do not
 * determine. sc21: Narayanan et al. 2021, arXiv:2104.04473, table 1. kor: Korthikanti et al. 2022,
 * arXiv:2205.05198, table 5. vt: VIA-Research/vTrain, data/ground_truth. bs: the chronicles of
 * bigscience-workshop/bigscience. dgxc: NVIDIA/dgxc-benchmarking. nemo, mbr, mlm: the performance
 * pages of NeMo and Megatron-Bridge, and reference runs of Megatron-LM. mpt:
 * mosaicml/llm-foundry, scripts/train/benchmarking. fms: fms-fsdp.
 */
#include "lib/model/stacks.h"

#include <stddef.h>
#include <string.h>

const char *const stack_names[] = { "megatron-lm", "megatron-deepspeed", "bigscience",
	"bigscience-v100", "megatron-core", "fsdp", "fsdp-h100", NULL };

/* clang-format off */
static const char *const texts[] = {
	/* Megatron-LM, 2021-22, A100 */
	"gemm-efficiency 0.8375 # 18 steps of sc21, kor\n"
	"memory-efficiency 0.8736 # 18 steps of sc21, kor\n"
	"link-efficiency 0.7202 # 18 steps of sc21, kor\n"
	"network-efficiency 0.4153 # 18 steps of sc21, kor\n"
	"dp-overlap 0.5981 # 18 steps of sc21, kor\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-fusion 1 # the default since February 2022\n"
	"profile-error 1.7 # models left out\n",
	/* Megatron-DeepSpeed, A100 */
	"gemm-efficiency 0.8704 # 115 steps of vt\n"
	"memory-efficiency 0.9454 # 115 steps of vt\n"
	"link-efficiency 0.8447 # 115 steps of vt\n"
	"network-efficiency 0.5116 # 115 steps of vt\n"
	"kernel-us 38.65 # 115 steps of vt\n"
	"host-us 80.42 # 115 steps of vt\n"
	"step-ms 6.604 # 115 steps of vt\n"
	"dp-overlap 0.1208 # 115 steps of vt\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-bytes 6 # a kernel adds gradients of 16 bits\n"
	"profile-error 8.1 # models left out\n",
	/* Megatron-DeepSpeed on OmniPath, A100 */
	"gemm-efficiency 0.8611 # 86 steps of bs, A100\n"
	"memory-efficiency 0.693 # 86 steps of bs, A100\n"
	"link-efficiency 0.4147 # 86 steps of bs, A100\n"
	"network-efficiency 0.2638 # 86 steps of bs, A100\n"
	"kernel-us 38.65 # 115 steps of vt\n"
	"host-us 80.42 # 115 steps of vt\n"
	"step-ms 6.604 # 115 steps of vt\n"
	"launch-blocking 1 # CUDA_LAUNCH_BLOCKING=1, without which 320 GPUs hung\n"
	"dp-overlap 0 # its pipelines reduce after the last micro batch\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-bytes 6 # a kernel adds gradients of 16 bits\n"
	"profile-error 3.5 # models left out\n",
	/* the same on V100 */
	"memory-efficiency 0.8753 # 15 steps of bs, V100\n"
	"dp-overlap 0 # its pipelines reduce after the last micro batch\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-bytes 6 # a kernel adds gradients of 16 bits\n"
	"profile-error 9.8 # one model: that of the constants before the fit\n",
	/* Megatron-Core and NeMo, H100 */
	"gemm-efficiency 0.7371 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"fp8-efficiency 1.126 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"attention-efficiency 0.5428 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"memory-efficiency 0.7704 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"link-efficiency 0.7787 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"network-efficiency 1 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"kernel-us 48.78 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"layer-overlap 0.9497 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-fusion 1 # the default\n"
	"loss-fusion 1 # as in NeMo's recipes\n"
	"profile-error 5.1 # models left out\n",
	/* FSDP, A100 */
	"gemm-efficiency 0.7947 # 36 steps of mpt, fms, A100\n"
	"attention-efficiency 0.3288 # 36 steps of mpt, fms, A100\n"
	"memory-efficiency 0.617 # 36 steps of mpt, fms, A100\n"
	"dp-overlap 0.771 # 36 steps of mpt, fms, A100\n"
	"memory-passes 1.9 # each operation of PyTorch is a kernel\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 5.5 # models left out\n",
	/* FSDP, H100 */
	"gemm-efficiency 0.6791 # 49 steps of mpt, fms, H100\n"
	"attention-efficiency 0.1825 # 49 steps of mpt, fms, H100\n"
	"memory-efficiency 0.5829 # 49 steps of mpt, fms, H100\n"
	"link-efficiency 0.7411 # 49 steps of mpt, fms, H100\n"
	"network-efficiency 0.7841 # 49 steps of mpt, fms, H100\n"
	"step-ms 16.77 # 49 steps of mpt, fms, H100\n"
	"dp-overlap 0.3645 # 49 steps of mpt, fms, H100\n"
	"memory-passes 1.9 # each operation of PyTorch is a kernel\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 3.4 # models left out\n",
};
/* clang-format on */

_Static_assert(sizeof texts / sizeof *texts == sizeof stack_names / sizeof *stack_names - 1,
    "a text for each name");

const char *
stack_text(const char *name)
{
	for (int i = 0; stack_names[i]; i++)
		if (!strcmp(stack_names[i], name))
			return texts[i];
	return NULL;
}
