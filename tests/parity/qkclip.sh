#!/bin/sh
# qkclip.sh - rows of q and k shrink where scores of attention are too large, whatever the layout
#
# By the largest scores of all samples: fp64 weights and states to 1e-9 of one rank's, with context
# ranks, and whatever is computed again or lies on the host. What has shrunk has no score above the
# threshold: the same sample once more changes nothing. In bf16 an update by the host has the bits
# of one by the device.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
text_dataset
clip="--qk-clip --qk-clip-threshold 1e-3 --lr 1e-2"
full="--recompute-granularity full"
latents="--multi-latent-attention --qk-layernorm --kv-lora-rank 12 --qk-head-dim 4
	--qk-pos-emb-head-dim 2 --v-head-dim 5 --num-query-groups 8"
plain=$llama

# of NAME: the options of a model
of()
{
	case $1 in
	latents) model="$plain $latents --q-lora-rank 10" ;;
	whole) model="$plain $latents" ;; # q has no latent
	later) model="$plain --mtp-num-layers 2 --mtp-loss-scaling-factor 0.3" ;;
	# what reads the output of another layer's attention does not see its scores
	itself) model="$plain --mtp-num-layers 2 --window-size 1" ;;
	biases) model="$plain --add-qkv-bias --reset-attention-mask --window-size 5" ;;
	*) model=$plain ;;
	esac
}

# check NAME RANKS OPTION...
check()
{
	name=$1 many=$2
	shift 2
	of "$name"
	rm -rf run
	[ -e "$name" ] || train 1 $text --fp64 $clip --train-iters 4 --save "$name"
	train "$many" $text --fp64 $clip --train-iters 4 "$@" --save run
	same_tensors "$name $*" run "$name" --tolerance 1e-9
	echo "$name, $many ranks $*: fp64 weights and states within 1e-9"
}

check llama 4 $(layout 2 1) $(zero 1) --micro-batch-size 2
check llama 4 $(layout 2 1) $(context 2) $full
check llama 2 $(context 2 a2a) $(zero 1) --optimizer-cpu-offload --optimizer-offload-fraction 0.5
check llama 1 --cpu-offloading-num-layers 2 --optimizer-cpu-offload --use-precision-aware-optimizer
check biases 4 $(layout 1 2) $(context 2) --recompute-granularity selective
check latents 4 $(layout 2 1) $(context 2) $full --sequence-parallel
check whole 4 $(layout 2 1) $(zero 3) --micro-batch-size 2
check later 4 $(layout 2 2) --sequence-parallel
check later 4 $(layout 1 2) $(context 2) $full

of llama
for rule in muon adam; do
	train 1 $text --fp64 $clip --train-iters 4 --optimizer $rule --save $rule.clip
	train 4 $text --fp64 $clip --train-iters 4 --optimizer $rule $(layout 2 1) $(zero 1) \
		--micro-batch-size 2 --save $rule.grid
	same_tensors "clipped, $rule" $rule.clip $rule.grid --tolerance 1e-9
done
echo "Muon and AdamW, TP 2 x DP 2: within 1e-9"

# A corpus whose samples are one: each as long as its document.
awk 'BEGIN {
	printf "{\"text\": \"3"
	for (k = 1; k < 15; k++)
		printf " %d", k * 37 % 498
	print "\"}"
}' >one.jsonl
mtok encode --tokenizer-type NullTokenizer --vocab-size 499 --append-eod -q -o one one.jsonl \
	>log 2>&1 || fail "mtok encode"
one="--data-path one_text_document --tokenizer-type NullTokenizer --split 100,0,0 --fp64 --qk-clip
	--num-layers 1 --global-batch-size 1 --lr 0 --min-lr 0 --weight-decay 0"
for name in llama biases latents whole itself; do
	of $name
	rm -rf free once twice
	train 1 $one --qk-clip-threshold 1e9 --train-iters 1 --save free
	train 1 $one --qk-clip-threshold 1e-3 --train-iters 1 --save once
	train 1 $one --qk-clip-threshold 1e-3 --train-iters 2 --save twice
	! (same_tensors clipped once free --ignore '*.exp_avg*') >log 2>&1 ||
		fail "$name: nothing was clipped"
	same_tensors "$name: clipped twice" once twice --tolerance 1e-12 --ignore '*.exp_avg*'
done
! (same_tensors clipped once free --only 'mtp.layers.1.*linear_q.weight') >log 2>&1 ||
	fail "the last layer after the head was not clipped"
echo "what has shrunk stays as it is with the same sample"

of llama
bits="$text --bf16 --use-precision-aware-optimizer --train-iters 4"
train 1 $bits $clip --save device
train 1 $bits $clip --optimizer-cpu-offload --optimizer-offload-fraction 0.5 --save host
same_tensors "by the host" device host
train 1 $text --bf16 --train-iters 4 $clip --save masters
same_tensors "low bits" device masters --tolerance 1e-5
echo "bf16: the host's update has the same bits"
still="--fp64 --mock-data --qk-clip --qk-clip-threshold 1e-3 --lr 0 --min-lr 0 --train-samples 8"
train 1 $still --save eight
ends 3 1 $still --global-batch-size 1 --exit-interval 1 --save first
! (same_tensors clipped eight first --only '*linear_q.weight') >log 2>&1 ||
	fail "samples after the first do not count"
ends 2 1 --mock-data $clip --qk-layernorm
grep -q -e "--qk-clip: is not supported with --qk-layernorm" log || fail "--qk-layernorm is taken"
