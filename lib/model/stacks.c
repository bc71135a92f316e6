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
	"gemm-efficiency 0.8198 # 18 steps of sc21, kor\n"
	"memory-efficiency 0.8922 # 18 steps of sc21, kor\n"
	"link-efficiency 0.7447 # 18 steps of sc21, kor\n"
	"network-efficiency 0.3709 # 18 steps of sc21, kor\n"
	"dp-overlap 0.6624 # 18 steps of sc21, kor\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-fusion 1 # the default\n"
	"profile-error 2.2 # models left out\n",
	/* Megatron-DeepSpeed, A100 */
	"gemm-efficiency 0.8476 # 115 steps of vt\n"
	"memory-efficiency 0.9128 # 115 steps of vt\n"
	"link-efficiency 0.872 # 115 steps of vt\n"
	"network-efficiency 0.7881 # 115 steps of vt\n"
	"kernel-us 43.79 # 115 steps of vt\n"
	"host-us 80.53 # 115 steps of vt\n"
	"step-ms 7.373 # 115 steps of vt\n"
	"dp-overlap 0 # 115 steps of vt\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 8.2 # models left out\n",
	/* Megatron-DeepSpeed on OmniPath, A100 */
	"gemm-efficiency 0.7603 # 86 steps of bs, A100\n"
	"memory-efficiency 0.8162 # 86 steps of bs, A100\n"
	"link-efficiency 0.4395 # 86 steps of bs, A100\n"
	"network-efficiency 0.3121 # 86 steps of bs, A100\n"
	"kernel-us 43.79 # 115 steps of vt\n"
	"host-us 80.53 # 115 steps of vt\n"
	"step-ms 7.373 # 115 steps of vt\n"
	"dp-overlap 0 # its pipelines reduce after the last micro batch\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 4.5 # models left out\n",
	/* the same on V100 */
	"memory-efficiency 0.8158 # 15 steps of bs, V100\n"
	"dp-overlap 0 # its pipelines reduce after the last micro batch\n"
	"attention-passes 7 # softmax, mask and dropout are stored: arXiv:2205.05198\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"whole-recompute 1 # checkpoints of layers run whole\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 8.5 # one model: that of the constants before the fit\n",
	/* Megatron-Core and NeMo, H100 */
	"gemm-efficiency 0.7299 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"fp8-efficiency 1.085 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"attention-efficiency 0.5932 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"memory-efficiency 0.8159 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"link-efficiency 0.8219 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"kernel-us 49.33 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"layer-overlap 1 # 111 steps of dgxc, nemo, mlm, mbr, H100\n"
	"stage-slices 1 # scatter and gather: arXiv:2104.04473, 4.1\n"
	"message-us 0 # rings and trees of NCCL\n"
	"gradient-fusion 1 # the default\n"
	"loss-fusion 1 # as in NeMo's recipes\n"
	"profile-error 4.9 # models left out\n",
	/* FSDP, A100 */
	"gemm-efficiency 0.7395 # 36 steps of mpt, fms, A100\n"
	"attention-efficiency 0.3242 # 36 steps of mpt, fms, A100\n"
	"dp-overlap 0.8849 # 36 steps of mpt, fms, A100\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 5.1 # models left out\n",
	/* FSDP, H100 */
	"gemm-efficiency 0.6506 # 48 steps of mpt, H100\n"
	"attention-efficiency 0.1809 # 48 steps of mpt, H100\n"
	"memory-efficiency 0.3949 # 48 steps of mpt, H100\n"
	"step-ms 25.2 # 48 steps of mpt, H100\n"
	"dp-overlap 0.6863 # 48 steps of mpt, H100\n"
	"message-us 0 # rings and trees of NCCL\n"
	"profile-error 5 # models left out\n",
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
