#!/bin/sh
# recompute.sh - recomputed activations give the same run bit by bit, in less memory
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
steps="--mock-data --train-iters 4 --lr 1e-3"

# saved OPTION...: bytes of saved activations of rank 0
saved()
{
	mtrain $model $steps "$@" --dry-run >plan.tsv 2>log || fail "--dry-run $*"
	awk -F '\t' '$1 == 0 { print $7 }' plan.tsv
}

# same NAME RANKS LAYOUT OPTION...: each way to recompute against none: losses, norms and the
# weights at the end
same()
{
	name=$1 ranks=$2 options=$3
	shift 3
	rm -rf none again none.jsonl
	train "$ranks" $steps $options "$@" --metrics-file none.jsonl --save none
	results none.jsonl >none.steps
	for how in "selective" "full" "full --recompute-num-layers 2" \
		"full --recompute-num-layers 3" \
		"selective --recompute-modules mlp" \
		"selective --recompute-modules core_attn layernorm" \
		"selective --recompute-modules layernorm mlp" \
		"full --recompute-method block --recompute-num-layers 1" \
		"full --recompute-method block --recompute-num-layers 3"; do
		# One of each kind, since the cases above cover the rest.
		case $few$how in
		yesfull | yes*block*3 | yes*\ 2 | yes*s\ mlp | yes*core*) continue ;;
		esac
		rm -rf again again.jsonl
		train "$ranks" $steps $options "$@" --recompute-granularity $how \
			--metrics-file again.jsonl --save again
		results again.jsonl >again.steps
		same_steps "$name: $how" none.steps again.steps
		same_tensors "$name: $how" none again
	done
	echo "$name: equal bit by bit, however much is recomputed"
}

few=
same llama 1 ""
few=yes
same llama-tp2-pp2 4 "$(layout 2 2)" --sequence-parallel
same llama-dp2-zero3 2 "$(zero 3) --ddp-bucket-size 5000"
none=$(saved) selective=$(saved --recompute-activations) full=$(saved --recompute-granularity full)
if [ "$none" -le "$selective" ] || [ "$selective" -le "$full" ]; then
	fail "saved bytes $none, selective $selective, full $full"
fi
norms=$(saved --recompute-activations --recompute-modules layernorm)
mlp=$(saved --recompute-activations --recompute-modules layernorm mlp)
# Its activation is gated and never kept, so selective recomputes norms alone.
if [ "$norms" != "$selective" ] || [ "$mlp" -ge "$norms" ] || [ "$full" -ge "$mlp" ]; then
	fail "saved bytes: norms $norms, with the MLP $mlp"
fi
echo "llama: $none bytes saved, selective $selective, with mlp $mlp, full $full"
model="$llama --qk-layernorm"
same llama-qknorm-tp2 2 "$(layout 2 1)"
model=$gpt2
few=
same gpt2-dropout 1 "" --micro-batch-size 2
few=yes
same gpt2-plain 1 "" --micro-batch-size 2 --hidden-dropout 0 --attention-dropout 0
same gpt2-dropout-pp2-bf16 2 "$(layout 1 2) --num-virtual-stages-per-pipeline-rank 2" --bf16 \
	--fp32-residual-connection
for wrong in mla_up_proj "mlp mlp"; do
	ends 2 1 $steps --recompute-activations --recompute-modules $wrong
	grep -q -e "--recompute-modules ${wrong%% *}: must be core_attn, layernorm, mlp, " log ||
		fail "--recompute-modules $wrong: $(cat log)"
done
ends 2 1 $steps --recompute-modules mlp
grep -q -e "--recompute-modules: is for --recompute-granularity selective" log ||
	fail "--recompute-modules without selective: $(cat log)"
train 1 $steps --recompute-activations --recompute-modules core_attn
grep -q -e "--recompute-modules core_attn: changes nothing" log || fail "no note of core_attn"
ends 0 1 $steps --dry-run --recompute-granularity selective --recompute-modules moe_act
grep -q -e "--recompute-modules moe_act: changes nothing" log || fail "no note of moe_act"
ends 0 1 $steps --dry-run --recompute-granularity selective --recompute-modules moe layernorm
grep -q -e "--recompute-modules moe: is not recomputed alone" log || fail "no note of moe"
ends 2 1 $steps --recompute-granularity selective --recompute-num-layers 2
grep -q -e "--recompute-num-layers: is for --recompute-granularity full" log ||
	fail "--recompute-num-layers with selective: $(cat log)"
