#!/bin/sh
# moved.sh - tiny models of GPT-OSS, DeepSeek-V3 and Qwen2-MoE stop under one layout and continue
# under another, with all that the optimizer keeps of their experts
#
# fp64 weights and states of the fourth step to 1e-9 of those of one rank that did not stop.
# shellcheck source=tests/parity/common disable=SC2046,SC2086,SC2154
. "$TOP/tests/parity/common"
# shellcheck source=tests/parity/rows
. "$TOP/tests/parity/rows"
steps="--fp64 --lr 1e-3 --clip-grad 0 --train-iters 4"

# moved MODEL RANKS OPTIONS RANKS OPTIONS
moved()
{
	use "$1"
	train 1 $steps --save whole
	ends 3 "$2" $steps $3 --save half --exit-interval 2
	train "$4" $steps $5 --load half --save half
	same_tensors "$1" half whole --tolerance 1e-9
	mckpt info --tensors half | grep -q 'experts[.].*exp_avg_sq' ||
		fail "$1: no states of experts"
	echo "$1: $2 ranks $3, then $4 ranks $5: weights and states within 1e-9"
	rm -rf whole half
}

moved moe-oss 4 "$(layout 2 1) $(zero 1) $rows $sharing 2 $slices 2" \
	4 "$(layout 1 2) $(zero 3) $sharing 2 $small"
moved moe-latent 4 "$(layout 1 2) $(zero 1) $sharing 2" \
	4 "$(layout 2 1) $rows $sharing 4 $slices 1 $(context 2) --recompute-granularity full"
moved moe-qwen 2 "$(zero 2) $sharing 2 $small" 4 "$(layout 2 2) $rows $slices 2"
