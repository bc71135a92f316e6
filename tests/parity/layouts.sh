#!/bin/sh
# layouts.sh - every layout and ZeRO stage computes what one rank computes
#
# With and without sequence parallelism. Three steps. fp32: loss and gradient norm to 1e-6 relative.
# fp64: every gradient and every updated weight to 1e-9 of its tensor's norm, and every expert as
# many rows in each step. In fp32, where layouts round near ties of experts differently, rows take
# the experts of one rank's run. Key biases are exempt where nothing rotates: their exact gradient
# is zero, Adam amplifies its rounding; |gradient| < 1e-12 instead. A fixed table, then a sample of
# all legal layouts of 8 ranks, drawn by SEED: for models without experts, and for two with them of
# all ways to share these too; with ALL=1 all of them with every model.
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"
: "${SEED:=1}" "${ALL:=}"
larger="--num-layers 8 --global-batch-size 16"
fp32="--train-iters 3 --lr 1e-4 --clip-grad 0.5"
fp64="--fp64 --train-iters 3 --lr 1e-3 --clip-grad 0 --save-interval 1 --log-interval 1"
models="llama llama-tied llama-muon gpt2 gpt2-untied${ALL:+ qwen phi}"
small="--ddp-bucket-size 5000"
split=--pipeline-model-parallel-layout
chunks=--num-virtual-stages-per-pipeline-rank
leave=--cpu-offloading-num-layers
alone="--no-overlap-grad-reduce --no-overlap-param-gather"
near=--use-tp-pp-dp-mapping
rows=--sequence-parallel
overlap=--tp-comm-overlap
sharing=--expert-model-parallel-size
slices=--expert-tensor-parallel-size
experts="--num-experts 8 --moe-ffn-hidden-size 24 --moe-z-loss-coeff 0.01"
beside="$rows $overlap"
text_dataset

# use MODEL: sets $model. plain is gpt2 without dropout: the gradients of its residual biases are
# taken elsewhere, but at the end of a stage.
use()
{
	case $1 in
	llama) model=$llama ;;
	llama-tied) model=$(echo "$llama" | sed 's/--untie[a-z-]*//') ;;
	gpt2) model=$gpt2 ;;
	gpt2-untied) model="$gpt2 --untie-embeddings-and-output-weights" ;;
	qknorm) model="$llama --qk-layernorm" ;;
	qknorm-gpt2) model="$gpt2 --qk-layernorm --position-embedding-type rope" ;;
	plain) model="$gpt2 --hidden-dropout 0 --attention-dropout 0" ;;
	qwen) model="$llama --add-qkv-bias --kv-channels 6 --rope-scaling-type yarn --window-size 5
		--rope-scaling-factor 4 --rope-original-positions 8 --window-attn-skip-freq 2" ;;
	phi) model="$llama --rotary-percent 0.5 --window-size 5" ;;
	packed) model="$gpt2 --reset-attention-mask --window-size 5" ;;
	neox) model="$gpt2 --use-parallel-residual --position-embedding-type rope
		--rotary-percent 0.5 --untie-embeddings-and-output-weights --hidden-dropout 0" ;;
	llama-muon) model="$llama --optimizer muon --muon-nesterov --muon-extra-scale-factor 0.2" ;;
	moe) model="$llama $experts --moe-router-topk 2 --moe-aux-loss-coeff 0.05" ;;
	moe-muon) model="$llama $experts --moe-router-topk 2 --optimizer muon --muon-nesterov
		--muon-extra-scale-factor 0.2" ;;
	moe-sigmoid) model="$llama $experts --moe-router-topk 3 --moe-aux-loss-coeff 0.05
		--moe-router-load-balancing-type seq_aux_loss --moe-layer-freq 2
		--moe-router-score-function sigmoid --moe-router-enable-expert-bias
		--moe-shared-expert-intermediate-size 16
		--moe-expert-rank-capacity-factor 0.5" ;;
	llama-post) model="$llama --norm-placement post --qk-layernorm --qk-layernorm-hidden-dim" ;;
	llama-gemma) model="$llama --window-size 5 --window-attn-skip-freq 3
		--rope-scaling-type linear --rope-scaling-factor 4 --sliding-window-rope-base 20
		--query-pre-attn-scalar 3 --attn-logit-softcapping 0.5
		--final-logit-softcapping 0.2 --norm-placement both --apply-layernorm-1p
		--scale-embeddings-by-hidden-size" ;;
	esac
	model="$model $larger $text"
	case $1 in llama*) model="$model --use-z-loss" ;; esac
}

# model, ranks, tensor, pipeline, micro batch, ZeRO stage, further options
cat >table <<END
llama 2 2 1 2 0 $overlap
llama 2 1 1 8 3 $small
phi 4 2 1 2 3 $small $alone $rows
gpt2 4 1 4 1 0 $split E|t*5|t*3|L
gpt2 4 1 2 2 3 $small $chunks 2
qknorm 8 4 2 1 0 $beside
plain 8 2 2 2 1 $rows $chunks 2 $near
packed 4 2 1 2 1 $(context 2) $rows
qknorm 4 1 1 2 1 $(context 4) --recompute-granularity selective
llama-gemma 8 2 2 1 3 $(context 2) $rows
neox 4 2 1 2 3 $rows $small
moe 4 2 1 1 1 $rows $sharing 2 $slices 1
moe-sigmoid 8 2 2 2 3 $rows $sharing 2 $(context 2) $small
END
[ -z "$ALL" ] || cat >>table <<END
llama 2 1 2 1 0 $chunks 3
gpt2 2 2 1 1 0 $beside
gpt2 4 4 1 8 0 $overlap
gpt2 4 1 2 2 1 $(context 2)
qknorm 4 2 1 1 0 $(context 2) $beside
llama 4 4 1 1 0 $beside
qwen 4 2 2 2 0
gpt2 4 1 2 2 3 $small $(context 2 a2a)
llama 2 1 1 1 0
llama 2 2 1 2 0
llama 4 4 1 1 0
llama 4 4 1 1 0 $rows
llama 4 2 1 2 3 $small $alone
gpt2 2 2 1 1 0
gpt2 4 4 1 8 0 $rows
qknorm 8 4 2 1 0
plain 8 2 2 2 1
plain 4 4 1 2 1 $rows
llama 2 1 2 1 0
llama 2 1 2 1 0 $chunks 4 --microbatch-group-size-per-virtual-pipeline-stage 7
llama 4 1 4 1 0 --num-layers-per-virtual-pipeline-stage 1 --no-overlap-p2p-communication
llama 8 2 4 1 2 $small $chunks 2 $rows --no-overlap-p2p-communication
gpt2 4 1 4 1 0
gpt2 4 1 2 2 3 $small
gpt2 8 1 4 1 1 $split E|t*2|tt|t|(t|)*2t|L
llama 8 2 4 1 3 $small $split Et|t*3|t*4|L
plain 8 2 2 2 1 $rows
plain 4 1 4 1 0
gpt2 8 8 1 4 0
llama 8 2 2 1 1 $small
llama 8 2 2 1 3 $small $near
gpt2 8 1 2 1 1 $near $(context 2) $small
llama 2 1 1 8 2 $small
gpt2 8 2 4 1 0
qknorm 8 2 2 1 3 $small
qknorm 4 2 1 2 1
qknorm-gpt2 4 4 1 8 2
llama 2 1 1 1 0 $(context 2)
packed 8 1 1 4 3 $(context 8) $small
packed 8 2 1 4 1 $(context 4 a2a) $rows
packed 8 1 2 8 3 $(context 4 a2a) $small --recompute-granularity full
packed 4 1 1 8 2 $(context 2) $small --recompute-granularity full
qknorm 8 4 1 4 0 $(context 2)
llama-post 4 1 2 1 3 $(context 2) $small $chunks 2
neox 8 2 2 1 1 $(context 2) $chunks 2 $beside
neox 4 2 2 1 0 --recompute-granularity full
llama-gemma 4 1 2 1 3 $small $(context 2 a2a) $chunks 2
moe 2 2 1 1 0 $rows $slices 1
moe 2 2 1 1 0 $rows
moe 2 1 1 1 0 $sharing 2
moe 4 1 1 1 1 $sharing 4 --recompute-granularity full
moe 4 4 1 1 0 $beside $sharing 2 $slices 1
moe 4 4 1 1 0 $beside
moe 4 1 2 1 1 $sharing 2 $small $chunks 2
moe 8 1 2 1 1 $sharing 4 $near $alone
moe 4 1 1 1 2 $small
moe-sigmoid 4 1 1 2 1 $sharing 2
moe-sigmoid 4 1 1 8 0 $sharing 2 $(context 2)
moe-sigmoid 8 2 2 2 3 $(context 2) $rows $small $slices 1
moe-sigmoid 8 8 1 4 1 $rows $sharing 8 $slices 1
moe-sigmoid 8 1 2 1 3 $sharing 2 $slices 2 $small --recompute-granularity full
moe-sigmoid 4 1 1 2 2 $sharing 4
moe 4 1 1 1 3 $sharing 2 $small --recompute-granularity full
moe 8 2 2 1 2 $rows $sharing 4 $slices 1 $small $chunks 2
moe-sigmoid 4 4 1 4 3 $rows $sharing 2 $slices 2
moe-sigmoid 8 2 2 2 1 $rows $sharing 2 $slices 1 $(context 2) $small
END

# grid: a row for each layout of 8 ranks and each ZeRO stage that mtrain takes; mplan has its rules
# for the sizes of the tensor, pipeline and context ranks
grid()
{
	shape_options=$(echo $llama $larger | sed 's/--eval-iters 0 --num-threads 1//')
	for tp in 1 2 4 8; do
		for pp in 1 2 4 8; do
			for cp in 1 2 4 8; do
				! mplan check $shape_options $(layout $tp $pp) $(context $cp) \
					--world-size 8 >log 2>&1 || stages $tp $pp $cp
			done
		done
	done
}

# grid_experts: the same of a model with experts, with each way to share them among the ranks of a
# stage; without ALL those in which some do
grid_experts()
{
	shape_options=$(echo $llama $larger $experts | sed 's/--eval-iters 0 --num-threads 1//')
	while read -r tp pp of_zero cp; do
		for ways in ${ALL:+1,1} 2,1 1,2 4,1 2,2 1,4 8,1 4,2 2,4 1,8; do
			ep=${ways%,*} etp=${ways#*,}
			case "$of_zero $((8 / pp % (ep * etp)))" in '0 0') ;; *) continue ;; esac
			! mplan check $shape_options $(layout $tp $pp) $(context $cp) $rows \
				$sharing $ep $slices $etp --world-size 8 >log 2>&1 ||
				stages $tp $pp $cp $ep $etp
		done
	done
}

# stages TP PP CP [EP ETP]: a row for each of ZeRO, where there are ranks to share with
stages()
{
	for zero in 0 1 2 3; do
		echo "$1 $2 $zero $3 ${4-} ${5-}"
	done
}

# drawn FILE MODELS: each of its layouts with each model, and by the seed one micro batch a data
# rank or as many as there are, several chunks per stage or one, small buckets or one for all
# layers, overlap or none, tensor ranks that communicate beside GEMMs or not, with rows of their own
# or none, which those of experts always have, and 0 to 3 layers of a stage that leave the device
# between the passes; without ALL one layout per model, with it rows of their own and none
drawn()
{
	awk -v seed="$SEED" -v all="$ALL" -v models="$2" -v small="$small" -v alone="$alone" \
		-v rows="$rows" -v overlap="$overlap" -v context="--context-parallel-size" \
		-v chunks="$chunks" -v sharing="$sharing" -v slices="$slices" \
		-v leave="$leave" '
		function draw(n) {
			seed = (seed * 16807) % 2147483647
			return int(seed / 2147483647 * n)
		}
		function row(model, l, part, line, cut, micro) {
			split(l, part, " ")
			micro = draw(2) ? 1 : 2 * part[1] * part[2] * part[4]
			line = model " 8 " part[1] " " part[2] " " micro " " part[3] " " \
				(draw(2) ? small : "") " " (draw(2) ? alone : "") " " \
				(part[4] > 1 ? context " " part[4] " --cp-comm-type " \
					(model ~ /gpt2/ && draw(2) ? "a2a" : "all_gather") : "")
			if (part[2] > 1 && part[2] < 8 && micro == 1 && draw(2))
				line = line " " chunks " " 2 + draw(8 / part[2] - 1)
			if (part[5])
				line = line " " sharing " " part[5] " " slices " " part[6]
			cut = part[1] > 1 && (all || part[5] || draw(2))
			beside = part[1] > 1 && draw(2) ? " " overlap : ""
			line = line " " leave " " draw(4)
			if (!cut || (all && !part[5]))
				print line beside
			if (cut)
				print line, rows beside
		}
		{ l[NR] = $0 }
		END {
			seed = seed % 2147483646 + 1
			for (i = 0; i < 3; i++)
				draw(1)
			n = split(models, m, " ")
			for (k = 1; k <= n; k++)
				for (i = 1; i <= (all ? NR : 1); i++)
					row(m[k], l[all ? i : 1 + draw(NR)])
		}' "$1"
}

# reference NAME: one rank in both precisions, and a run that hardly keeps its gradient, so that its
# moments are zero
reference()
{
	case $1 in
	moe*) routed write "$1.choices" 1 $fp32 --metrics-file "$1.jsonl" ;;
	*) train 1 $fp32 --metrics-file "$1.jsonl" ;;
	esac
	train 1 $fp64 --save "$1" --metrics-file "$1.fp64.jsonl"
	train 1 $fp64 --save "$1.zero" --train-iters 1 --adam-beta1 0.9999999
}

# key_biases A ZERO: prints the largest gradient; fails when there are none
key_biases()
{
	mckpt diff "$1/iter_0000001" "$2/iter_0000001" --only '*linear_k.bias.exp_avg' 2>log |
		awk -F '\t' '
			NR > 1 && $6 + 0 > max { max = $6 + 0 }
			END { if (NR < 2) exit 1; printf "%.1e\n", max * 10 }'
}

# same_loads A B: whether the experts of every layer and step got as many rows in both runs
same_loads()
{
	grep '"expert_load"' "$2.fp64.jsonl" >loads || return 1
	grep '"expert_load"' "$1.fp64.jsonl" | cmp -s - loads
}

# check MODEL RANKS TP PP MICRO ZERO OPTION...; exp_avg after step 1 is 0.1 of the gradient
check()
{
	of=$1 name="$*" ranks=$2
	options="$(layout "$3" "$4") --micro-batch-size $5 $(zero "$6")"
	shift 6
	exempt=none bias=
	case $of in gpt2* | plain | packed) exempt='*linear_k.bias*' ;; esac
	rm -rf run run.jsonl run.fp64.jsonl
	case $of in
	moe*) routed read "$of.choices" "$ranks" $options "$@" $fp32 --metrics-file run.jsonl ;;
	*) train "$ranks" $options "$@" $fp32 --metrics-file run.jsonl ;;
	esac
	loss=$(gap lm_loss run.jsonl "$of.jsonl")
	norm=$(gap grad_norm run.jsonl "$of.jsonl")
	within 1e-6 "$loss" "$norm" ||
		fail "$name: fp32 loss differs by $loss, gradient norm by $norm"
	train "$ranks" $options "$@" $fp64 --save run --metrics-file run.fp64.jsonl
	case $of in moe*) same_loads run "$of" || fail "$name: other loads of experts" ;; esac
	same_tensors "$name: gradients" run/iter_0000001 "$of/iter_0000001" --tolerance 1e-9 \
		--only '*.exp_avg' --ignore "$exempt"
	same_tensors "$name: weights" run "$of" --tolerance 1e-9 --ignore "$exempt"
	if [ "$exempt" != none ]; then
		bias=$(key_biases run "$of.zero")
		within 1e-12 "$bias" || fail "$name: gradient of a key bias is $bias"
	fi
	echo "$name: fp32 loss $loss, gradient norm $norm; \
fp64 gradients and weights within 1e-9${bias:+, key biases $bias}"
}

grid >legal
grid_experts <legal >legal.experts
[ -s legal ] || fail "no legal layout"
[ -s legal.experts ] || fail "no legal layout of a model with experts"
drawn legal "$models" >chosen
drawn legal.experts "moe-sigmoid moe-muon" >>chosen
echo "$(wc -l <legal) legal layouts of 8 ranks with ZeRO 0 to 3, $(wc -l <legal.experts) of a \
model with experts; seed $SEED draws the last $(wc -l <chosen) rows"
cat chosen >>table
while read -r row; do
	set -- $row
	use "$1"
	[ -e "$1" ] || reference "$1"
	check "$@" </dev/null
done <table

# The comparison fails with other data, and with a learning rate that is off by a millionth.
use gpt2
rm -rf run run.jsonl
options=$(layout 2 1)
train 2 $fp32 $options --seed 4321 --metrics-file run.jsonl
! within 1e-6 "$(gap lm_loss run.jsonl gpt2.jsonl)" || fail "another seed gives the same loss"
train 2 $fp64 $options --lr 1.000001e-3 --save run
if (same_tensors mutation run gpt2 --tolerance 1e-9 --ignore '*linear_k.bias*') >/dev/null; then
	fail "another learning rate gives the same weights"
fi
echo "another seed and another learning rate fail the comparison"
