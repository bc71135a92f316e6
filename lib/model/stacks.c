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
	"gemm-efficiency 0.8189 # 18 steps of sc21, kor\n"
	"memory-efficiency 0.8818 # 18 steps of sc21, kor\n"
	"link-efficiency 0.7236 # 18 steps of sc21, kor\n"
	"network-efficiency 0.3732 # 18 steps of sc21, kor\n"
	"dp-overlap 0.6757 # 18 steps of sc21, kor\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-fusion 1 # the default\n"
	"profile-error 2.4 # models left out\n",
	/* Megatron-DeepSpeed, A100 */
	"gemm-efficiency 0.8532 # 115 steps of vt\n"
	"memory-efficiency 0.8493 # 115 steps of vt\n"
	"link-efficiency 0.8105 # 115 steps of vt\n"
	"network-efficiency 0.7771 # 115 steps of vt\n"
	"kernel-us 43.22 # 115 steps of vt\n"
	"host-us 80.89 # 115 steps of vt\n"
	"step-ms 7.729 # 115 steps of vt\n"
	"dp-overlap 0.159 # 115 steps of vt\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 8.5 # models left out\n",
	/* Megatron-DeepSpeed on OmniPath, A100 */
	"gemm-efficiency 0.7104 # 86 steps of bs, A100\n"
	"memory-efficiency 0.8173 # 86 steps of bs, A100\n"
	"link-efficiency 0.3603 # 86 steps of bs, A100\n"
	"dp-overlap 0.5 # assumed: the steps do not determine it\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 7.7 # models left out\n",
	/* the same on V100 */
	"memory-efficiency 0.7867 # 15 steps of bs, V100\n"
	"dp-overlap 0.5 # assumed: the steps do not determine it\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 8 # one model: that of the constants before the fit\n",
	/* Megatron-Core and NeMo, H100 */
	"gemm-efficiency 0.7316 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"fp8-efficiency 1.097 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"attention-efficiency 0.5187 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"memory-efficiency 0.7601 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"link-efficiency 0.7207 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"network-efficiency 1 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"kernel-us 42.8 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"layer-overlap 0.9544 # 110 steps of dgxc, nemo, mlm, mbr, H100\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-fusion 1 # the default\n"
	"loss-fusion 1 # as in NeMo's recipes\n"
	"profile-error 6.1 # models left out\n",
	/* FSDP, A100 */
	"gemm-efficiency 0.7354 # 36 steps of mpt, fms, A100\n"
	"attention-efficiency 0.3237 # 36 steps of mpt, fms, A100\n"
	"dp-overlap 0.9141 # 36 steps of mpt, fms, A100\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 5.3 # models left out\n",
	/* FSDP, H100 */
	"gemm-efficiency 0.6595 # 48 steps of mpt, H100\n"
	"attention-efficiency 0.1811 # 48 steps of mpt, H100\n"
	"memory-efficiency 0.3582 # 48 steps of mpt, H100\n"
	"step-ms 24.13 # 48 steps of mpt, H100\n"
	"dp-overlap 0.7259 # 48 steps of mpt, H100\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 4.5 # models left out\n",
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
