#!/usr/bin/env bats
# mplan.bats - every verb of mplan, its exit statuses and its words

bats_require_minimum_version 1.5.0
load common

setup()
{
	cd "$BATS_TEST_TMPDIR"
	cat >tiny.conf <<-END
		num-layers 4
		hidden-size 64
		num-attention-heads 8
		vocab-size 500
		seq-length 32
		bf16
	END
	cat >8b.conf <<-END
		num-layers 32
		hidden-size 4096
		ffn-hidden-size 14336
		num-attention-heads 32
		group-query-attention
		num-query-groups 8
		vocab-size 128256
		seq-length 2048
		swiglu
		normalization RMSNorm
		position-embedding-type rope
		disable-bias-linear
		untie-embeddings-and-output-weights
		bf16
	END
}

# column N: that column of the table on stdin, without its header
column()
{
	tail -n +2 | cut -f "$1"
}

@test "no arguments, unknown verb, help, version" {
	refused 2 "mplan: no verb given; --help lists the verbs" mplan
	refused 2 "mplan: unknown verb 'tyme'; --help lists the verbs" mplan tyme
	run -0 mplan --help
	help=$output
	for verb in check mem draw simulate rankfile time search; do
		[[ "$help" == *"  $verb "* ]]
		run -0 mplan "$verb" --help
		[[ "$output" == "usage: mplan $verb [options]"* ]]
		[[ "$output" == *"--tensor-model-parallel-size N"* ]]
	done
	[[ "$help" == *"  report "* ]]
	run -0 mplan report --help
	[[ "$output" == "usage: mplan report [options] METRICS..."* ]]
	run -0 mplan --version
	[[ "$output" == "mplan (mikoshi) "* ]]
}

@test "the manual's option lists are those of the program, and the manual is well formed" {
	sed -n '/begin options/,/end options/p' "$TOP/man/mplan.1" | sed '1d;$d' >lists
	mplan --mdoc | diff - lists
	for page in mplan.1 mplan.5; do
		[ -z "$(mandoc -Tlint "$TOP/man/$page" | grep -v 'referenced manual not found')" ]
	done
}

@test "time: parts add up to the step, and rates follow from it" {
	run -0 --separate-stderr mplan time --config 8b.conf --world-size 8 --gpu h200 \
		--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
		--global-batch-size 16 --use-distributed-optimizer
	echo "$output" | awk -F '\t' '
		$1 == "step_seconds" { step = $2; next }
		$1 ~ /_seconds$/ { sum += $2; share += $3 }
		{ v[$1] = $2 }
		END {
			ok = (sum / step - 1) ^ 2 < 1e-8 && (share - 1) ^ 2 < 1e-4
			ok = ok && (v["tokens_per_second"] * step / (16 * 2048) - 1) ^ 2 < 1e-8
			ok = ok && v["tensor_exchanges_seconds"] > 0 && v["stage_wait_seconds"] > 0
			ok = ok && v["tflops_full"] > v["tflops_causal"] && v["mfu_full"] < 0.8
			exit !ok
		}'
	refused 2 "mplan: --gpu: is needed, or --tflops and what else is known of the device" \
		mplan time --config 8b.conf --world-size 8
}

@test "time: a whole run: days by part, failures, energy and money; the fewest ranks in time" {
	big="--gpu h100 --world-size 16384 --tensor-model-parallel-size 8 --sequence-parallel
		--pipeline-model-parallel-size 8 --global-batch-size 2048
		--use-distributed-optimizer --config 8b.conf"
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan time $big --train-tokens 1e13 --price 2 --eval-iters 20
	echo "$output" | awk -F '\t' '
		{ v[$1] = $2 }
		$1 == "run_days" { next }
		$1 ~ /_days$/ { sum += $2; share += $3 }
		$1 == "steps_days" { goodput = $3 }
		END {
			ok = (sum / v["run_days"] - 1) ^ 2 < 1e-8 && (share - 1) ^ 2 < 1e-6
			ok = ok && goodput > 0.9 && v["evaluation_days"] > 0
			steps = v["train_steps"] * v["step_seconds"] / 86400
			ok = ok && (v["steps_days"] / steps - 1) ^ 2 < 1e-8
			hours = v["run_days"] * 24 * 16384
			ok = ok && (v["device_hours"] / hours - 1) ^ 2 < 1e-8
			ok = ok && (v["price"] / hours / 2 - 1) ^ 2 < 1e-8
			ok = ok && (v["kilowatt_hours"] / hours / 0.7 - 1) ^ 2 < 1e-8
			ok = ok && (v["failures"] / hours / 2e-5 - 1) ^ 2 < 1e-8
			exit !ok
		}'
	# shellcheck disable=SC2086 # options
	slow=$(mplan time $big --train-tokens 1e13 --save-seconds 60 |
		awk '$1 == "steps_days" { print $3 }')
	awk -v slow="$slow" 'BEGIN { exit !(slow < 0.9) }'

	search="mplan search --config 8b.conf --gpu h100 --global-batch-size 512 --top 1
		--train-tokens 1e12 --target-days 14"
	run -0 --separate-stderr $search
	ranks=$(echo "$stderr" | sed -n 's/^mplan: \([0-9]*\) ranks train 1e+12.*/\1/p')
	[ $((ranks % 8)) = 0 ]
	run -1 --separate-stderr $search --world-size $((ranks - 8))
	[[ "$stderr" == "mplan: --target-days 14: no number of ranks up to $((ranks - 8)) does;"* ]]
	refused 2 "mplan: --train-tokens: is needed" mplan search --config 8b.conf --gpu h100 \
		--global-batch-size 512 --target-days 14
}

@test "check: the published sizes of GPT-OSS" {
	while read -r layers experts parameters; do
		cat >config.json <<-END
			{ "model_type": "gpt_oss", "vocab_size": 201088, "hidden_size": 2880,
			  "intermediate_size": 2880, "num_hidden_layers": $layers, "head_dim": 64,
			  "num_attention_heads": 64, "num_key_value_heads": 8, "hidden_act": "silu",
			  "num_local_experts": $experts, "num_experts_per_tok": 4,
			  "experts_per_token": 4, "initial_context_length": 4096,
			  "max_position_embeddings": 131072, "rms_norm_eps": 1e-05,
			  "rope_scaling": { "beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
			    "original_max_position_embeddings": 4096, "rope_type": "yarn",
			    "truncate": false }, "rope_theta": 150000, "sliding_window": 128,
			  "attention_bias": true, "swiglu_limit": 7.0, "tie_word_embeddings": false,
			  "router_aux_loss_coef": 0.9, "output_router_logits": false,
			  "quantization_config": { "quant_method": "mxfp4" } }
		END
		run -0 --separate-stderr mplan check --model config.json --world-size 1
		[[ "$output" == "ok: $parameters parameters on 1 ranks: "* && -z "$stderr" ]]
	done <<-END
		24 32 20914757184
		36 128 116829156672
	END
}

@test "check: a legal layout in one line" {
	run -0 --separate-stderr mplan check --config 8b.conf --world-size 16 \
		--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 \
		--global-batch-size 64 --micro-batch-size 2
	[ "$output" = "ok: 8030261248 parameters on 16 ranks: tensor 2, pipeline 4, data 2; 16 micro-batches of 2; layers Et*8|t*9|t*9|t*6L; at most 1135149056 parameters per rank, in bf16" ]
	[ -z "$stderr" ]
	run -0 mplan check --model "$TOP/tests/fuzz/corpus/config_json/llama.json" --world-size 1
	[[ "$output" == "ok: 2"*" parameters on 1 ranks: tensor 1, pipeline 1, data 1; 1 micro-batches of 1; layers Et*4L;"* ]]
	run -0 --separate-stderr mplan check --config tiny.conf --world-size 2 --sequence-parallel
	[ "$stderr" = "mplan: read by nothing in this run: --sequence-parallel (needs --tensor-model-parallel-size above 1)" ]
	run -0 --separate-stderr mplan check --config tiny.conf --world-size 2 --tp-comm-overlap
	[ "$stderr" = "mplan: read by nothing in this run: --tp-comm-overlap (needs --tensor-model-parallel-size above 1)" ]
	run -0 --separate-stderr mplan check --world-size 1 --fp32-residual-connection \
		--model "$TOP/tests/fuzz/corpus/config_json/llama.json"
	[ "$stderr" = "mplan: read by nothing in this run: --fp32-residual-connection (needs --bf16 or --fp16)" ]
	run -0 --separate-stderr mplan check --config tiny.conf --world-size 2 \
		--fp32-residual-connection
	[ -z "$stderr" ]
	run -0 --separate-stderr mplan check -q --config tiny.conf --world-size 2 \
		--sequence-parallel
	[ -z "$stderr" ]
}

@test "check: the bytes that a rank sends in a step, inside hosts and between them" {
	zero="--data-parallel-sharding-strategy optim_grads_params --recompute-granularity full"
	eight="mplan check --config 8b.conf --world-size 16 --global-batch-size 128 $zero"
	run -0 --separate-stderr $eight --gpus-per-node 8
	[[ "${lines[0]}" == "ok: 8030261248 parameters on 16 ranks:"* ]]
	[ "${lines[1]}" = "$(printf 'axis\tbytes_inside\tbytes_between')" ]
	[ "${lines[2]}" = "$(printf 'data\t410657020928\t29332644352')" ]
	[ "${#lines[@]}" = 3 ]
	run -0 --separate-stderr $eight --gpus-per-node 4 --json
	[ "$output" = '{"axis": "data", "bytes_inside": 351991732224, "bytes_between": 87997933056}' ]
}

@test "check: 8-bit operands: what is supported, and the sizes that they need" {
	eight="--config tiny.conf --world-size 1 --bf16 --fp8-format hybrid"
	run -0 --separate-stderr mplan check $eight
	[ -z "$stderr" ]
	run -0 --separate-stderr mplan check $eight --fp8-recipe tensorwise \
		--first-last-layers-bf16 --num-layers-at-end-in-bf16 0
	[ -z "$stderr" ]
	run -0 --separate-stderr mplan check $eight --fp8-param-gather
	[ "$stderr" = "mplan: without effect here: --fp8-param-gather (weights are gathered in bf16, and each rank copies those that it multiplies to 8 bits)" ]
	run -0 --separate-stderr mplan check --config tiny.conf --world-size 1 --fp8-margin 1
	[ "$stderr" = "mplan: read by nothing in this run: --fp8-margin (needs --fp8-format)" ]
	refused 1 "mplan: --fp8-format e4m3: needs --bf16" mplan check --world-size 1 --fp16 \
		--fp8-format e4m3 --model "$TOP/tests/fuzz/corpus/config_json/llama.json"
	experts="$eight --num-experts 4 --disable-bias-linear"
	run -0 --separate-stderr mplan check $experts --moe-ffn-hidden-size 16
	[ -z "$stderr" ]
	refused 1 "mplan: --fp8-format: channels of an expert on a tensor rank must be a multiple of 16, and are 24" \
		mplan check $experts --moe-ffn-hidden-size 24
	refused 1 "mplan: --fp8-format: channels of the shared expert on a tensor rank must be a multiple of 16, and are 40" \
		mplan check $experts --moe-ffn-hidden-size 16 --moe-shared-expert-intermediate-size 40
	refused 1 "mplan: --fp8-recipe blockwise: with --num-experts, hidden channels on a tensor rank must be a multiple of 128, and are 64" \
		mplan check $experts --moe-ffn-hidden-size 16 --fp8-recipe blockwise
	refused 1 "mplan: --fp8-recipe blockwise: outputs of an expert's first linear on a tensor rank must be a multiple of 128, and are 16" \
		mplan check $experts --moe-ffn-hidden-size 16 --fp8-recipe blockwise \
		--hidden-size 128 --kv-channels 32
	refused 1 "mplan: --fp8-recipe mxfp8: is not supported; give delayed, tensorwise or blockwise" \
		mplan check $eight --fp8-recipe mxfp8
	refused 1 "mplan: --first-last-layers-bf16: needs --fp8-recipe tensorwise or blockwise" \
		mplan check $eight --first-last-layers-bf16
	refused 1 "mplan: --fp8-format hybrid: 8-bit copies are made of whole weights: --data-parallel-sharding-strategy must be at most optim_grads" \
		mplan check $eight --data-parallel-sharding-strategy optim_grads_params
	refused 1 "mplan: --fp8-format: ffn channels on a tensor rank must be a multiple of 16, and are 24" \
		mplan check $eight --ffn-hidden-size 24
	refused 1 "mplan: --fp8-format: tokens on a tensor rank must be a multiple of 16, and are 8" \
		mplan check $eight --seq-length 8
}

@test "check: types of the optimizer: those that are supported, and where they may be chosen" {
	aware="--config tiny.conf --world-size 1 --bf16 --use-precision-aware-optimizer"
	run -0 --separate-stderr mplan check $aware
	[ -z "$stderr" ]
	run -0 --separate-stderr mplan check --world-size 1 --use-precision-aware-optimizer \
		--model "$TOP/tests/fuzz/corpus/config_json/llama.json"
	[ "$stderr" = "mplan: --use-precision-aware-optimizer: changes nothing without --bf16 or a type narrower than fp32, such as --exp-avg-dtype bf16" ]
	run -0 --separate-stderr mplan check $aware --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16
	[ -z "$stderr" ]
	refused 1 "mplan: --exp-avg-dtype bf16: needs --use-precision-aware-optimizer" \
		mplan check --config tiny.conf --world-size 1 --exp-avg-dtype bf16
	refused 1 "mplan: --use-precision-aware-optimizer: needs --optimizer adam, not sgd" \
		mplan check $aware --exp-avg-dtype bf16 --optimizer sgd
	refused 1 "mplan: --exp-avg-dtype fp8: is not supported; give fp32 or bf16" \
		mplan check $aware --exp-avg-dtype fp8
	refused 1 "mplan: --exp-avg-sq-dtype fp16: is not supported; give fp32 or bf16" \
		mplan check $aware --exp-avg-sq-dtype fp16
	refused 1 "mplan: --main-params-dtype fp16: is not supported; give fp32" \
		mplan check $aware --main-params-dtype fp16
	refused 1 "mplan: --main-grads-dtype bf16: needs --data-parallel-sharding-strategy optim_grads or optim_grads_params" \
		mplan check $aware --main-grads-dtype bf16
	run -0 --separate-stderr mplan check $aware --main-grads-dtype bf16 \
		--data-parallel-sharding-strategy optim_grads
	[ "$stderr" = "mplan: --main-grads-dtype bf16: changes nothing with one data rank" ]
}

@test "check: an illegal layout is a no, with every rule and a legal value" {
	refused 1 "mplan: --tensor-model-parallel-size 3: must divide --num-attention-heads 8 (try 2); --tensor-model-parallel-size 3: must divide or be a multiple of --num-query-groups 8 (try 2); --tensor-model-parallel-size 3: must divide --ffn-hidden-size 256 (try 2); --pipeline-model-parallel-size 6: must be at most 5 for --num-layers 4 (try 5)" \
		mplan check --config tiny.conf --world-size 9 --tensor-model-parallel-size 3 \
		--pipeline-model-parallel-size 6
	refused 1 "mplan: 7 ranks: must be a multiple of --tensor-model-parallel-size 2 x --pipeline-model-parallel-size 1 = 2 (try 6)" \
		mplan check --config tiny.conf --world-size 7 --tensor-model-parallel-size 2
	refused 1 "mplan: --global-batch-size 2043: must be a multiple of --micro-batch-size x data-parallel size = 36 (try 2016)" \
		mplan check --config tiny.conf --world-size 9 --global-batch-size 2043 \
		--micro-batch-size 4
	refused 1 "mplan: --context-parallel-size 5: must divide half of --seq-length 32 (try 4)" \
		mplan check --config tiny.conf --world-size 5 --context-parallel-size 5
	refused 1 "mplan: 6 ranks: must be a multiple of --tensor-model-parallel-size 1 x --context-parallel-size 4 x --pipeline-model-parallel-size 1 = 4 (try 4)" \
		mplan check --config tiny.conf --world-size 6 --context-parallel-size 4 \
		--cp-comm-type all_gather
	refused 1 "mplan: --cp-comm-type a2a+p2p: context parallelism of two levels is not supported; give a2a or all_gather" \
		mplan check --config tiny.conf --world-size 4 --context-parallel-size 2 \
		--cp-comm-type a2a+p2p
	refused 1 "mplan: --cp-comm-type a2a: --tensor-model-parallel-size 4 x --context-parallel-size 4 must divide --num-query-groups 8 (try --cp-comm-type all_gather)" \
		mplan check --config tiny.conf --world-size 16 --context-parallel-size 4 \
		--tensor-model-parallel-size 4 --cp-comm-type a2a
	run -0 --separate-stderr mplan check --config tiny.conf --world-size 4 \
		--context-parallel-size 4
	[ "$stderr" = "mplan: --cp-comm-type p2p: keys and values are gathered, as with all_gather; there is no ring" ]
	refused 1 "mplan: --seq-length 36: must be a multiple of --tensor-model-parallel-size 4 x --context-parallel-size 2 with --sequence-parallel (try 32)" \
		mplan check --config tiny.conf --world-size 8 --tensor-model-parallel-size 4 \
		--context-parallel-size 2 --sequence-parallel --seq-length 36
	refused 1 "mplan: --seq-length 31: must be a multiple of --tensor-model-parallel-size 2 with --sequence-parallel (try 30)" \
		mplan check --config tiny.conf --world-size 2 --tensor-model-parallel-size 2 \
		--sequence-parallel --seq-length 31
}

@test "wrong usage exits 2" {
	refused 2 "mplan: --world-size: is needed" mplan check --config tiny.conf
	refused 2 "mplan: --world-size 0: must be from 1 to 10000000" mplan mem --config tiny.conf --world-size 0
	refused 2 "mplan: operand 'plan.conf': mplan takes none; option files come with --config" \
		mplan check --config tiny.conf --world-size 1 plan.conf
	refused 2 "mplan: --num-layers: is needed (or --model CONFIG)" mplan check --world-size 1 --vocab-size 9
	refused 2 "mplan: --vocab-size: is needed (or a tokenizer, or --model CONFIG)" \
		mplan check --world-size 1 --num-layers 1 --hidden-size 8 --num-attention-heads 1
	refused 2 "mplan: --seq-length: is needed" \
		mplan check --world-size 1 --num-layers 1 --hidden-size 8 --num-attention-heads 1 \
		--vocab-size 9 --position-embedding-type none
	refused 2 "mplan: --hidden-size 65: must be a multiple of --num-attention-heads 8 (try 72), or give --kv-channels" \
		mplan check --config tiny.conf --world-size 1 --hidden-size 65
	refused 2 "mplan: --bf16, --fp16 and --fp64 exclude each other: give one of them" \
		mplan check --config tiny.conf --world-size 1 --fp16
	refused 2 "mplan: unknown option '--hiden-size'; the nearest is '--hidden-size'" mplan check --hiden-size 4
	refused 2 "mplan: cannot open 'none.conf': No such file or directory" mplan check --config none.conf
	refused 2 "mplan: --global-batch-size: is needed" mplan search --config tiny.conf --world-size 1 --gpu h200
	refused 2 "mplan: needed: --gpu (or --memory-gb and what else is known of the device), --global-batch-size" \
		mplan search --config tiny.conf --world-size 1
	refused 2 "mplan: --gpu: is needed (or --memory-gb and what else is known of the device)" \
		mplan search --config tiny.conf --world-size 1 --global-batch-size 8
	refused 2 "mplan: --gpu h300: must be one of h100, h100-pcie, h200, b200, b300, gb200, gb300, a100-40, a100-80, a100-pcie, v100-16, v100-32, cpu" \
		mplan search --config tiny.conf --world-size 1 --global-batch-size 8 --gpu h300
}

@test "mem: a row for each stage, whose columns add up" {
	run -0 --separate-stderr mplan mem --config tiny.conf --world-size 8 \
		--pipeline-model-parallel-size 4 --global-batch-size 16
	[ "${lines[0]}" = "stage	ranks	weights	gradients	optimizer	constants	saved	scratch	workspace	total	host" ]
	[ "${#lines[@]}" = 5 ]
	column 3-10 <<<"$output" | awk '{ if ($1 + $2 + $3 + $4 + $5 + $6 + $7 != $8) exit 1 }'
	[ "$(column 2 <<<"$output" | awk '{ n += $1 } END { print n }')" = 8 ]
	# One micro-batch: the stages in the middle hold the same.
	run -0 mplan mem --config tiny.conf --world-size 4 --pipeline-model-parallel-size 4
	[ "$(column 1 <<<"$output" | tr '\n' ' ')" = "0 1-2 3 " ]
	[ "$(column 2 <<<"$output" | tr '\n' ' ')" = "1 2 1 " ]
}

@test "mem: every rank, every buffer, JSON" {
	run -0 mplan mem --config tiny.conf --world-size 8 --tensor-model-parallel-size 2 \
		--pipeline-model-parallel-size 2 --all-ranks
	[ "${lines[0]}" = "rank	tp	cp	dp	pp	ep	etp	weights	gradients	optimizer	constants	saved	scratch	workspace	total	host" ]
	[ "$(column 1-5 <<<"$output" | tail -n 1)" = "7	1	0	1	1" ]
	[ "${#lines[@]}" = 9 ]
	total=$(tail -n 1 <<<"$output" | cut -f 15)
	run -0 mplan mem --config tiny.conf --world-size 8 --tensor-model-parallel-size 2 \
		--pipeline-model-parallel-size 2 --buffers
	[ "${lines[0]}" = "stage	arena	buffer	offset	bytes	instances	total" ]
	grep -q '^1	scratch	logits	' <<<"$output"
	run -0 mplan mem --config tiny.conf --world-size 8 --tensor-model-parallel-size 2 \
		--pipeline-model-parallel-size 2 --json
	[ "${#lines[@]}" = 2 ]
	[[ "${lines[1]}" == '{"first_stage": 1, "last_stage": 1, "ranks": 4, "weights": '*", \"total\": $total, \"host\": 0}" ]]
	run -0 mplan mem --config tiny.conf --world-size 1 --json --buffers
	[[ "${lines[0]}" == '{"stage": 0, "arena": "params", "buffer": "weights", "offset": 0, "bytes": '* ]]
}

@test "draw: the passes of a step, the bubble, a table" {
	run -0 --separate-stderr mplan draw --config tiny.conf --world-size 2 --width 18 \
		--pipeline-model-parallel-size 2 --global-batch-size 2 --vocab-size 16 --gpu h200 \
		--num-layers 32 --num-layers-per-virtual-pipeline-stage 16
	[[ "${lines[0]}" == "  0 "01*aaa*bb* ]] && [[ "${lines[1]}" == "  1 ".*0*aa*1*bb*... ]]
	[[ "${lines[2]}" == "stages compute 6"?.?" % of the time" ]]
	run -0 mplan draw --config tiny.conf --world-size 2 --pipeline-model-parallel-size 2 \
		--global-batch-size 4 --num-virtual-stages-per-pipeline-rank 2 --passes --gpu h200
	[ "${lines[0]}" = "$(printf 'stage\tpass\tchunk\tmicrobatch\tstart\tend')" ]
	[ "${#lines[@]}" = 33 ]
	refused 2 "mplan: --order gpipe: needs one chunk of layers a stage, not 2" \
		mplan draw --config tiny.conf --world-size 2 --pipeline-model-parallel-size 2 \
		--global-batch-size 4 --num-virtual-stages-per-pipeline-rank 2 --order gpipe \
		--gpu h200
	refused 2 "mplan: --gpu: is needed, or --tflops and what else is known of the device" \
		mplan draw --config tiny.conf --world-size 2
}

@test "draw: memory in use reaches what is allocated; ranks by host; SVG and a trace" {
	plan="--config 8b.conf --world-size 16 --pipeline-model-parallel-size 4 \
		--tensor-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 \
		--global-batch-size 16"
	# shellcheck disable=SC2086 # options
	run -0 mplan draw $plan --gpu h100 --view memory --width 40
	[ "${#lines[@]}" = 5 ]
	[ "$(head -n 4 <<<"$output" | awk '$3 == $5 && length($2) == 40' | wc -l)" = 4 ]
	[[ "${lines[0]}" == *9999* ]] && [[ "${lines[3]}" != *9999* ]]
	# All forward passes first keep what all micro batches save, more than the plan has.
	run -0 mplan draw --config 8b.conf --world-size 2 --pipeline-model-parallel-size 2 \
		--global-batch-size 16 --gpu h100 --view memory --width 40 --order gpipe
	head -n 2 <<<"$output" | awk '$3 <= $5 { exit 1 }'
	# shellcheck disable=SC2086 # options
	run -0 mplan draw $plan --gpu h100 --view ranks
	[ "${lines[1]}" = "host 1: ranks 8 to 15: stage 2 to 3, data 0 to 1, context 0, tensor 0 to 1" ]
	for view in timeline memory ranks; do
		# shellcheck disable=SC2086 # options
		mplan draw $plan --gpu h100 --view $view --format svg -o $view.svg
		[ "$(head -c 4 $view.svg)$(tail -n 1 $view.svg)" = "<svg</svg>" ]
	done
	# Of a data rank: 8 micro batches forward and backward through 8 virtual stages.
	[ "$(grep -c 'class="[fb]"' timeline.svg)" = 128 ]
	[ "$(grep -c '<path' memory.svg)" = 4 ] && [ "$(grep -c '<title>rank ' ranks.svg)" = 16 ]
	# shellcheck disable=SC2086 # options
	run -0 mplan draw $plan --gpu h100 --format trace
	[ "$(grep -c '"cat":"\(forward\|backward\)","ph":"X"' <<<"$output")" = 128 ]
	[ "$(grep -c '"cat":"send' <<<"$output")" = "$(grep -c '"cat":"receive' <<<"$output")" ]
	[ "${lines[0]} ${lines[-1]}" = '{"displayTimeUnit":"ms","traceEvents":[ ]}' ]
	# shellcheck disable=SC2086 # options
	refused 2 "mplan: --format trace: holds times, not --view ranks; give text or svg" \
		mplan draw $plan --gpu h100 --format trace --view ranks
	# shellcheck disable=SC2086 # options
	refused 1 "mplan: 'ranks.svg' exists; --force replaces it" \
		mplan draw $plan --gpu h100 -o ranks.svg
}

@test "rankfile: for Open MPI 4 and 5 and Slurm; bytes inside hosts and between them" {
	plan="--config 8b.conf --world-size 16 --gpu h100 --pipeline-model-parallel-size 4
		--tensor-model-parallel-size 2 --global-batch-size 16 --use-distributed-optimizer"
	printf 'n1 slots=8\n# spare\nn2:8\n' >hosts
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan rankfile $plan -o rf --hostfile hosts --cores-per-host 96
	[ "$stderr" = "mplan: mpirun -np 16 --rankfile rf" ]
	[ "$(sed -n '2p;9p' rf)" = "$(printf 'rank 1=n1 slot=12-23\nrank 8=n2 slot=0-11')" ]
	[ "$(wc -l <rf)" = 16 ]
	# A message is a row of 4096 numbers of 16 bits for each of 2048 tokens; for 8 micro batches
	# the second stage sends one to the third, on the other host, and one back to the first.
	[ "${lines[0]}" = "axis	bytes_inside	bytes_between" ]
	message=$((2048 * 4096 * 2))
	[ "${lines[3]}" = "pipeline	$((message * 8))	$((message * 8))" ]
	[[ "${lines[1]}" == "tensor	"*"	0" ]] && [[ "${lines[2]}" == "data	"*"	0" ]]
	# Where data ranks are the last axis, they are on different hosts, and stages on one.
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan rankfile $plan -o rf5 --launcher openmpi5 \
		--use-tp-pp-dp-mapping
	[ "$stderr" = "mplan: mpirun -np 16 --map-by rankfile:file=rf5" ]
	[ "$(tail -n 1 rf5)" = "rank 15=+n1 slot=7" ]
	[[ "${lines[2]}" == "data	0	"[1-9]* ]] && [[ "${lines[3]}" == "pipeline	"*"	0" ]]
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan rankfile $plan -o slurm --hostfile hosts --launcher slurm
	[ "$stderr" = "mplan: SLURM_HOSTFILE=slurm srun --distribution=arbitrary --ntasks=16" ]
	[ "$(uniq -c slurm | tr -s ' \n' ' ')" = " 8 n1 8 n2 " ]
	# shellcheck disable=SC2086 # options
	{
		refused 2 "mplan: --output: is needed" mplan rankfile $plan
		refused 1 "mplan: --launcher slurm: needs --hostfile, the names of the hosts" \
			mplan rankfile $plan -o x --launcher slurm
		refused 1 "mplan: hosts:1: 8 slots: --gpus-per-node is 4" \
			mplan rankfile $plan -o x --hostfile hosts --gpus-per-node 4
		refused 1 "mplan: hosts: 2 hosts of 8 devices: 32 ranks need 4" \
			mplan rankfile $plan -o x --hostfile hosts --world-size 32
		refused 1 "mplan: --tensor-model-parallel-size 2: must divide --gpus-per-node 5, so that its ranks share a host" \
			mplan rankfile $plan -o x --gpus-per-node 5
	}
}

@test "simulate: stages wait for the slowest; replicas cost nothing; deviations have a seed" {
	stages="--config 8b.conf --gpu h200 --pipeline-model-parallel-size 4"
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan simulate $stages --world-size 64 --global-batch-size 128
	[ "${lines[0]}" = "stage	passes_seconds	messages_seconds	wait_seconds	busy" ]
	few=$(column 1-5 <<<"$output")
	echo "$few" | awk 'NF != 5 || $2 + $3 + $4 < 0.999 * ($2 / $5) { exit 1 }
		{ t = $2 + $3 + $4 } NR > 1 && (t / last - 1) ^ 2 > 1e-8 { exit 1 } { last = t }
		END { exit NR != 4 }'
	[[ "$stderr" == "mplan: 4 stages take "*" s, no less than "*" in any order, and compute "* ]]
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan simulate $stages --world-size 65536 --global-batch-size 131072
	[ "$(column 1-5 <<<"$output")" = "$few" ]
	# shellcheck disable=SC2086 # options
	run -0 --separate-stderr mplan simulate $stages --world-size 64 --global-batch-size 128 \
		--slow-stage 2 --slow-factor 1.5
	column 2 <<<"$output" | paste - <(cut -f 2 <<<"$few") |
		awk '{ ok = ok " " ($1 / $2 > 1.4999) } END { exit ok != " 0 0 1 0" }'
	# shellcheck disable=SC2086 # options
	for seed in 1 1 2; do
		mplan simulate -q $stages --world-size 64 --global-batch-size 128 --seed $seed \
			--pass-deviation 0.1
	done >all
	[ "$(sed -n 2,5p all)" = "$(sed -n 7,10p all)" ]
	[ "$(sed -n 2,5p all)" != "$(sed -n 12,15p all)" ]
	# shellcheck disable=SC2086 # options
	refused 2 "mplan: --slow-stage 4: stages are numbered from 0 to 3" mplan simulate $stages \
		--world-size 64 --global-batch-size 128 --slow-stage 4 --slow-factor 2
}

@test "search: the best plans, and a plan that check and mem accept" {
	run -0 --separate-stderr mplan search --config 8b.conf --world-size 64 --gpu h200 \
		--global-batch-size 512 -o plan.conf
	[ "${lines[0]}" = "rank	tp	cp	dp	pp	micro_batch_size	num_microbatches	sharding	memory_gib	fit	seconds	tokens_per_second	compute	tp_share	bubble	dp_share	memory_bound	other	cp_share	chunks	ep	etp	ep_share	sp	cp_comm_type	split	recompute	offloaded_layers	optimizer	instances	tp_overlap	host_gib" ]
	[ "${#lines[@]}" = 11 ]
	[[ "$stderr" == "mplan: "*" legal layouts, "*" plans made in the order of their time; the best (tensor "*") spends "*" % of a step on "*"; the next ("* ]]
	# The shares of each row add up to 1.
	column 13-19 <<<"$output" | awk '{ s = $1 + $2 + $3 + $4 + $5 + $6 + $7; if (s < 0.996 || s > 1.004) exit 1 }'
	[ "$(head -c 32 plan.conf)" = "# mplan search: 64 ranks of h200" ]
	[ "$(grep -c . plan.conf)" -le 14 ]
	first=${lines[1]}
	run -0 mplan check --config 8b.conf --config plan.conf --world-size 64
	[[ "$output" == "ok: 8030261248 parameters on 64 ranks: tensor $(cut -f 2 <<<"$first"), pipeline $(cut -f 5 <<<"$first"), data $(cut -f 4 <<<"$first"); "* ]]
	# Its memory is that of mplan mem, plus the reserve for what is not the run's own.
	bytes=$(mplan mem --config 8b.conf --config plan.conf --world-size 64 |
		awk -F '\t' 'NR > 1 { print $10 - $9 }' |
		sort -n | tail -n 1)
	awk -v b="$bytes" -v g="$(cut -f 9 <<<"$first")" \
		'BEGIN { d = b / 1073741824 + 1.5 - g; exit !(d < 0.001 && d > -0.001) }'
}

@test "mem and search: ranks that share experts" {
	experts="--config tiny.conf --disable-bias-linear --num-experts 8 --swiglu --sequence-parallel"
	run -0 mplan mem $experts --world-size 8 --tensor-model-parallel-size 2 \
		--expert-model-parallel-size 2 --all-ranks
	[ "$(column 6-7 <<<"$output" | tr '\t\n' ', ')" = "0,0 0,1 1,0 1,1 0,0 0,1 1,0 1,1 " ]
	run -0 mplan search -q $experts --world-size 8 --gpu h200 --global-batch-size 8 --top 1000 \
		--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1
	[[ "$(column 21-22 <<<"$output" | sort -u | tr '\t\n' ', ')" == "1,1 1,2 2,1 "* ]]
	run -0 mplan search -q $experts --world-size 8 --gpu h200 --global-batch-size 8 -o plan.conf \
		--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 \
		--expert-model-parallel-size 4 --expert-tensor-parallel-size 1
	awk -F '\t' '$21 != 4 || $22 != 1 || $23 + 0 == 0 { exit NR > 1 }' <<<"$output"
	grep -qx 'expert-model-parallel-size 4' plan.conf
	grep -qx 'expert-tensor-parallel-size 1' plan.conf
	run -0 mplan check $experts --config plan.conf --world-size 8
	[[ "$output" == *": tensor 2, pipeline 1, data 4, expert 4, expert tensor 1; "* ]]
	run -1 mplan search -q --config tiny.conf --world-size 8 --gpu h200 --global-batch-size 8 \
		--expert-model-parallel-size 2
}

@test "search: many experts, within seconds" {
	seconds=20
	case $B in *-address* | *-run) seconds=90 ;; esac
	(
		ulimit -t $seconds
		mplan search -q --num-layers 48 --hidden-size 2048 --num-attention-heads 32 \
			--group-query-attention --num-query-groups 4 --swiglu \
			--disable-bias-linear --num-experts 128 --moe-router-topk 8 \
			--moe-ffn-hidden-size 768 --vocab-size 151936 --seq-length 4096 --bf16 \
			--world-size 64 --gpu h200 --global-batch-size 512 --top 2000 >plans
	)
	[ "$(wc -l <plans)" -gt 1000 ]
}

@test "published GPT-OSS and DeepSeek-V3: their parameters, and whether a layout fits" {
	published() {
		local verb=$1 model=$2
		shift 2
		mplan "$verb" -q --model "$TOP/tests/golden/published/$model.json" --seq-length 4096 --bf16 "$@"
	}
	while read -r model parameters; do
		run -0 published check "$model" --world-size 1
		[[ "$output" == "ok: $parameters parameters on 1 ranks: "* ]]
	done <<-END
		gpt-oss-20b 20914757184
		gpt-oss-120b 116829156672
		deepseek-v3 671026419200
	END
	run -0 published search gpt-oss-20b --world-size 8 --gpu h100 --global-batch-size 1024 --top 1
	[ "$(column 10 <<<"$output" | tail -n 1)" = fits ]
	run -1 published search gpt-oss-120b --world-size 8 --gpu h100 --global-batch-size 1024
	[[ "$output" == "mplan: none of "*" legal layouts of 8 ranks fits 79.2 GiB, whatever is sharded, recomputed or kept on the host: the smallest plan needs "* ]]
}

@test "search: plans that keep more on a host than it has are left out" {
	search() {
		mplan search -q --config 8b.conf --seq-length 8192 --world-size 1 --gpu h200 \
			--global-batch-size 64 --top 1 "$@"
	}
	run -0 search
	[ "$(column 29,32 <<<"$output")" = "host	89.776" ]
	[ "$(search --host-memory-gb 90)" = "$output" ]
	run -0 search --host-memory-gb 89
	[ "$(column 29 <<<"$output")" = device ]
	column 32 <<<"$output" | awk '$1 > 89 || $1 <= 0 { exit 1 }'
	# With no room there nothing goes to the host.
	run -0 search --host-memory-gb 1
	[ "$(column 28-29,32 <<<"$output")" = "0	device	0.000" ]
	run -1 search --host-memory-gb 1 --micro-batch-size 2 --gpu h100
	[[ "$output" == "mplan: none of 1 legal layouts of 1 ranks fits 79.2 GiB and 1 of a host, "*": the smallest plan needs "*" GiB and "*" of a host ("* ]]
}

@test "search: context ranks that are typed are in every plan, and cost traffic" {
	run -0 --separate-stderr mplan search --config 8b.conf --world-size 64 --gpu h200 \
		--global-batch-size 64 --context-parallel-size 4 --cp-comm-type a2a \
		--tensor-model-parallel-size 2 --force -o plan.conf
	[[ "$stderr" == "mplan: "*"the best (tensor 2, context 4, pipeline "* ]]
	column 2-5,19 <<<"$output" | awk '$2 != 4 || $1 * $2 * $3 * $4 != 64 || $5 <= 0 { exit 1 }'
	grep -qx 'context-parallel-size 4' plan.conf
	run -0 mplan check -q --config 8b.conf --config plan.conf --world-size 64
	[[ "$output" == "ok: 8030261248 parameters on 64 ranks: tensor 2, context 4, pipeline "* ]]
	run -1 mplan search -q --config 8b.conf --world-size 64 --gpu h200 \
		--global-batch-size 64 --context-parallel-size 8 --cp-comm-type a2a \
		--tensor-model-parallel-size 2
}

@test "search: a strategy that is typed holds; free, more is shared only where less does not fit" {
	search() { mplan search -q --config 8b.conf --global-batch-size 64 --gpu h100 "$@"; }
	for what in no_shard optim optim_grads optim_grads_params; do
		run -0 search --world-size 64 --data-parallel-sharding-strategy $what
		[ "$(column 8 <<<"$output" | sort -u)" = $what ]
	done
	run -0 search --world-size 8 --use-torch-fsdp2 --force -o plan.conf
	grep -qx 'data-parallel-sharding-strategy optim_grads_params' plan.conf
	# 8 billion parameters: weights take 15 GiB, gradients 30, the optimizer's state 90.
	while read -r gb rule; do
		run -0 search --world-size 8 --tensor-model-parallel-size 1 --memory-gb "$gb" \
			--pipeline-model-parallel-size 1 --context-parallel-size 1 --micro-batch-size 1
		echo "$gb: $(column 8,27-29 <<<"$output")"
		[[ "$(column 8,27-29 <<<"$output" | tr '\t' ' ')" =~ ^$rule$ ]]
	done <<-END
		140 optim none 0 device
		25 optim_grads_params .*
	END
}

@test "search: typed layout options hold, --pick writes another, --force replaces" {
	run -0 -- mplan search -q --config 8b.conf --world-size 64 --gpu h100 \
		--global-batch-size 512 --tensor-model-parallel-size 4 --micro-batch-size 2 \
		--use-distributed-optimizer --top 3 -o plan.conf
	[ "${#lines[@]}" -le 4 ]
	[ "$(column 2,6,8 <<<"$output" | sort -u)" = "4	2	optim" ]
	cp plan.conf first.conf
	refused 1 "mplan: 'plan.conf' exists; --force replaces it" \
		mplan search --config 8b.conf --world-size 64 --gpu h100 --global-batch-size 512 \
		-o plan.conf
	cmp plan.conf first.conf
	refused 1 "mplan: '8b.conf' is not a plan: it is not replaced" \
		mplan search --config 8b.conf --world-size 64 --gpu h100 --global-batch-size 512 \
		--force -o 8b.conf
	run -0 mplan search -q --config 8b.conf --world-size 64 --gpu h100 --global-batch-size 512 \
		--pick 2 --force -o plan.conf
	! cmp -s plan.conf first.conf
	[ "$(grep '^pipeline' plan.conf)" = "pipeline-model-parallel-size $(column 5 <<<"$output" | sed -n 2p)" ]
	run -0 mplan search -q --config 8b.conf --world-size 64 --gpu h100 --global-batch-size 512 \
		--tensor-model-parallel-size 4 --sequence-parallel --force -o plan.conf
	grep -qx sequence-parallel plan.conf
	run -1 --separate-stderr mplan search -q --config 8b.conf --world-size 64 --gpu h100 \
		--global-batch-size 512 --pick 9999 --tensor-model-parallel-size 4 \
		--pipeline-model-parallel-size 1 --micro-batch-size 1 -o x.conf
	[[ "$stderr" == "mplan: --pick 9999: there are "*" plans that fit" ]]
	[ ! -e x.conf ]
	run -1 mplan search -q --config tiny.conf --world-size 1 --gpu h100 --global-batch-size 8 \
		-o none/plan.conf
}

@test "search: stages in chunks, of every number or as they were typed" {
	search() { mplan search -q --config 8b.conf --world-size 64 --gpu h100 --top 1000 \
		--global-batch-size 64 --tensor-model-parallel-size 4 \
		--pipeline-model-parallel-size 4 --micro-batch-size 1 --context-parallel-size 1 "$@"; }
	run -0 search -o plan.conf
	[ "$(column 20 <<<"$output" | sort -nu | paste -s -d ' ')" = "1 2 3 4 5 6 7 8" ]
	[ "$(column 26 <<<"$output" | sort -u | paste -s -d ' ')" = "equal weighed" ]
	best=$(column 20 <<<"$output" | head -n 1)
	[ "$best" -gt 1 ]
	grep -Eqx "num-virtual-stages-per-pipeline-rank $best|num-layers-per-virtual.* $((32 / 4 / best))" plan.conf
	run -0 mplan check -q --config 8b.conf --config plan.conf --world-size 64
	run -0 search --num-virtual-stages-per-pipeline-rank 2 --force -o plan.conf
	[ "$(column 20 <<<"$output" | sort -u)" = 2 ]
	run -0 mplan check -q --config 8b.conf --config plan.conf --world-size 64 \
		--num-virtual-stages-per-pipeline-rank 2
	run -0 search --decoder-last-pipeline-num-layers 5
	[ "$(column 20 <<<"$output" | sort -u)" = 1 ]
}

# 8 experts of an 8B model's size: 47 billion parameters, of which 13 take part in a token.
@test "mem: which layouts of Tanuki-8x8B fit 80 GB" {
	# most STAGES RANKS: GB of the stage with the most
	most() {
		mplan mem --config 8b.conf --use-distributed-optimizer --global-batch-size 1536 \
			--num-experts 8 --pipeline-model-parallel-size "$1" --world-size "$2" |
			column 10 | sort -n | awk 'END { print int($1 / 1e9) }'
	}
	[ "$(mplan mem --config 8b.conf --world-size 1 | head -n 1 | cut -f 10)" = total ]
	[ "$(most 4 64)" -gt 80 ]
	[ "$(most 8 8)" -gt 80 ]
	[ "$(most 8 64)" -lt 80 ]
	[ "$(most 16 16)" -gt 80 ]
	[ "$(most 16 32)" -lt 80 ]
	[ "$(most 16 128)" -lt 42 ]
}

@test "search: a plan in fp32 says what it costs" {
	local search="mplan search --config 8b.conf --world-size 4 --gpu h200 --global-batch-size 128"
	grep -v '^bf16' 8b.conf >plain.conf
	run -0 --separate-stderr ${search/8b/plain} --top 1
	[[ "${stderr_lines[0]}" == "mplan: in fp32: "* ]]
	plain=$(column 11 <<<"$output") in16=$(mplan search -q ${search#mplan search} --top 1 | column 11)
	[ "${stderr_lines[1]}" = "$(printf 'mplan: the plan is in fp32: a step takes %.4g s, and %.4g s with --bf16' "$plain" "$in16")" ]
	run -0 --separate-stderr $search --top 1
	[[ "$stderr" == "mplan: in bf16: "* ]] && [ "${#stderr_lines[@]}" = 1 ]
}

@test "search: instances of what is sharded, one a host" {
	zero="--data-parallel-sharding-strategy optim_grads_params"
	two="mplan search --config 8b.conf --world-size 16 --gpus-per-node 8 --gpu h100
		--global-batch-size 64 --micro-batch-size 1 --tensor-model-parallel-size 1
		--context-parallel-size 1 --pipeline-model-parallel-size 1"
	run -0 --separate-stderr $two $zero
	[ "$(echo "$output" | column 30)" = "$(printf '2\n1')" ]
	[[ "$stderr" == *"sharding optim_grads_params in 2 instances) spends"* ]]
	run -0 --separate-stderr $two $zero --num-distributed-optimizer-instances 1
	[ "$(echo "$output" | column 30)" = 1 ]
	run -0 --separate-stderr $two $zero --num-distributed-optimizer-instances 4
	[ "$(echo "$output" | column 30)" = 4 ]
	run -0 --separate-stderr $two --use-distributed-optimizer
	[ "$(echo "$output" | column 30)" = 1 ]
	run -0 --separate-stderr $two $zero -o two.conf
	grep -qx 'num-distributed-optimizer-instances 2' two.conf
	grep -qx 'outer-dp-sharding-strategy optim' two.conf
	run -0 --separate-stderr $two $zero --outer-dp-sharding-strategy no_shard -o whole.conf
	[ "$(echo "$output" | column 30)" = "$(printf '2\n1')" ]
	grep -qx 'num-distributed-optimizer-instances 2' whole.conf
	[ -z "$(grep outer-dp whole.conf)" ]
	run -0 --separate-stderr $two --use-distributed-optimizer \
		--outer-dp-sharding-strategy optim --num-distributed-optimizer-instances 2
	[ "$(echo "$output" | column 30)" = 1 ]
	refused 2 "mplan: --num-distributed-optimizer-instances 2: needs what they share: --use-distributed-optimizer, or --data-parallel-sharding-strategy" \
		$two --data-parallel-sharding-strategy no_shard --num-distributed-optimizer-instances 2
}

@test "search: nothing legal, nothing fits, a tight fit" {
	refused 1 "mplan: no legal layout of 7 ranks: sizes must divide the ranks, 8 heads, 4 layers and --global-batch-size 8; refused: 1 by --global-batch-size 8: must be a multiple of 7, the data ranks times the micro batch (try 7), 2 by --context-parallel-size 7: must divide half of --seq-length 32 (try 4), 2 by --tensor-model-parallel-size 7: must divide --num-attention-heads 8 (try 4); --tensor-model-parallel-size 7: must divide or be a multiple of --num-query-groups 8 (try 4); --tensor-model-parallel-size 7: must divide --ffn-hidden-size 256 (try 4)" \
		mplan search --config tiny.conf --world-size 7 --gpu h200 --global-batch-size 8
	refused 1 "mplan: none of 1 legal layouts of 1 ranks fits 15.7 GiB, whatever is sharded, recomputed or kept on the host: the smallest plan needs 46.67 GiB (tensor 1, pipeline 1, data 1, recompute full, 31 layers offloaded, optimizer on the host, micro-batch-size 1); no change of options makes it fit" \
		mplan search --config 8b.conf --world-size 1 --gpu v100-16 --global-batch-size 1
	run -0 --separate-stderr mplan search --config 8b.conf --world-size 1 --memory-gb 146 \
		--reserve-gb 1 --global-batch-size 1
	[ "$(column 10 <<<"$output" | head -n 1)" = fits ]
	[[ "$stderr" == "mplan: in bf16: 1 legal layouts, "*" the best ("*") spends "*" % of a step on "* ]]
	run -0 mplan search -q --config tiny.conf --world-size 2 --gpu cpu --global-batch-size 8 \
		--tflops 0.1 --memory-bandwidth 20
	[ "${#lines[@]}" -gt 3 ]
}

@test "search: all plans of ten thousand ranks" {
	run -0 mplan search -q --config 8b.conf --world-size 10240 --gpu gb200 \
		--global-batch-size 20480 --num-layers 60 --hidden-size 8192 \
		--ffn-hidden-size 28672 --num-attention-heads 64
	[ "${#lines[@]}" -gt 5 ]
}

@test "a full disk and a closed pipe are noticed" {
	run -1 bash -c 'mplan mem --config tiny.conf --world-size 1 >/dev/full'
	[ "$output" = "mplan: cannot write standard output" ]
}

@test "time: published layouts by the profiles of their programs" {
	# figure NAME: its value in the output
	figure() { awk -v name="$1" '$1 == name { print $2 }' <<<"$output"; }
	within() { awk -v x="$1" -v y="$2" -v p="$3" 'BEGIN { exit !((x / y - 1) ^ 2 < (p / 100) ^ 2) }'; }
	below() { awk -v x="$1" -v y="$2" 'BEGIN { exit !(x < y) }'; }

	# Swallow's Llama 2 on A100s (NLP2024, table 2) with the batch and the recomputation of its
	# scripts. Its program counts four passes, and an MLP of two matrices (rioyokotalab/
	# Megatron-Llama2, megatron/utils.py).
	for swallow in "7b 32 134" "13b 64 143" "70b 256 158"; do
		read -r size ranks rate <<<"$swallow"
		model=$TOP/recipes/llama2-$size-continual/model.conf
		set -- --world-size "$ranks" --gpu a100-40 --stack megatron-lm \
			--recompute-granularity selective
		run -0 --separate-stderr mplan time --config "$model" "$@"
		seconds=$(awk -v rate="$rate" -v ranks="$ranks" '
			{ v[$1] = $2 }
			END {
				h = v["hidden-size"]
				l = v["num-layers"]
				s = v["seq-length"]
				print (8 + 4 * v["ffn-hidden-size"] / h) * 4 * 1024 * s * l * h ^ 2 * \
					(1 + s / (6 * h) + v["vocab-size"] / (16 * l * h)) / rate / 1e12 / ranks
			}' "$model")
		within "$(figure step_seconds)" "$seconds" 8
		below "$(figure taken_gib)" 39.4

		grep -vE '^(tensor|pipeline)-model' "$model" >free.conf
		mplan search -q --config free.conf --context-parallel-size 1 \
			--num-virtual-stages-per-pipeline-rank 1 --top 20 "$@" >plans
		awk -F '\t' '
			NR == FNR { split($0, v, " "); size[v[1]] = v[2]; next }
			$2 == "tp" { next }
			!(($2, $5) in seen) { seen[$2, $5] = ++places }
			END {
				place = seen[size["tensor-model-parallel-size"],
					size["pipeline-model-parallel-size"]]
				exit !(place && place <= 3)
			}' "$model" plans
	done

	# GPT 13B on V100s of 16 GB (Nakamura), all layers recomputed.
	run -0 --separate-stderr mplan time --num-layers 40 --hidden-size 5120 \
		--num-attention-heads 40 --vocab-size 50257 --seq-length 2048 --fp16 \
		--recompute-granularity full --world-size 32 --gpu v100-16 --stack bigscience-v100 \
		--tensor-model-parallel-size 4 --pipeline-model-parallel-size 8 --global-batch-size 512
	below "$(figure allocated_gib)" 15.7

	# Tanuki's settings on H100s, slower ones first: 89, 185 and 240 TFLOP/s; the number of
	# ranks and the batch are ours.
	before=0
	for sizes in "2 4 1 --sequence-parallel" "1 8 1" "2 8 4 --sequence-parallel"; do
		read -r tensor pipeline batch rows <<<"$sizes"
		# shellcheck disable=SC2086 # an option or none
		run -0 --separate-stderr mplan time --config 8b.conf --fp8-format hybrid --gpu h100 \
			--world-size 64 --stack megatron-core --num-experts 8 --moe-router-topk 2 \
			--use-distributed-optimizer --global-batch-size 1536 \
			--tensor-model-parallel-size "$tensor" --micro-batch-size "$batch" \
			--pipeline-model-parallel-size "$pipeline" $rows
		below "$before" "$(figure tflops_full)"
		before=$(figure tflops_full)
	done
	# Llama-3 70B on 64 H100s in FP8 (Megatron-Bridge 25.09: 1,619 tokens/s of a GPU): the
	# seconds of its layout, which fits or is tight, and the place of its sizes.
	set -- --config 8b.conf --num-layers 80 --hidden-size 8192 --ffn-hidden-size 28672 \
		--num-attention-heads 64 --seq-length 8192 --attention-dropout 0 \
		--hidden-dropout 0 --fp8-format hybrid --sequence-parallel --tp-comm-overlap \
		--use-distributed-optimizer --cpu-offloading-num-layers 0 --gpu h100 \
		--world-size 64 --stack megatron-core --global-batch-size 128
	run -0 --separate-stderr mplan time --tensor-model-parallel-size 4 \
		--pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 2 "$@"
	within "$(figure step_seconds)" 10.12 5
	below "$(figure taken_gib)" 82.4
	mplan search -q --top 20 "$@" >plans
	awk -F '\t' '
		$2 == "tp" { next }
		!(($2, $3, $5) in seen) { seen[$2, $3, $5] = ++places }
		END { exit !(seen[4, 1, 8] && seen[4, 1, 8] <= 3) }' plans
	# A micro batch of 6 of Tanuki ran out of memory, and one of 4 did not.
	set -- --config 8b.conf --fp8-format hybrid --gpu h100 --world-size 64 --stack megatron-core \
		--num-experts 8 --moe-router-topk 2 --expert-model-parallel-size 1 \
		--attention-dropout 0 --hidden-dropout 0 --use-distributed-optimizer \
		--global-batch-size 1536 --recompute-granularity selective --sequence-parallel \
		--tensor-model-parallel-size 2 --pipeline-model-parallel-size 8 \
		--context-parallel-size 1 --num-virtual-stages-per-pipeline-rank 1 --top 1
	run -0 --separate-stderr mplan search -q --micro-batch-size 4 "$@"
	run -1 --separate-stderr mplan search -q --micro-batch-size 6 "$@"
	[[ $stderr == "mplan: none of 2 legal layouts of 64 ranks fits 79.2 GiB"* ]]
}

@test "fit: constants from measured steps, as a file for --stack" {
	printf '%s\t' id model arch layers hidden heads ffn act vocab seq gpu gpu_mem_gb gpus tp pp \
		mbs gbs precision >rows.tsv
	echo iter_s >>rows.tsv
	# Models of four widths, each with two micro batches, at half of the peak.
	for h in 1024 2048 4096 6144; do
		for b in 4 8; do
			awk -v h=$h -v b=$b 'BEGIN {
				f = 6 * 64 * 2048 * (24 * 12 * h * h + 51200 * h + 24 * 2048 * h)
				printf "x-%d\tm%d\tgpt\t24\t%d\t16\t%d\tgelu\t51200\t2048\tA100-SXM", \
					h + b, h, h, 4 * h
				printf "\t80\t8\t1\t1\t%d\t64\tbf16\t%.4f\n", b, f / 156e12 / 8
			}' >>rows.tsv
		done
	done
	echo "y-1	other	llama	2	64	4	64	swiglu	100	16	A100-SXM	80	8	1	1	1	8	nvfp4	1" >>rows.tsv
	run --separate-stderr mplan fit -v rows.tsv --rows x y -o a.conf
	[ "$status" = 0 ]
	[[ $stderr == *"y-1: left out: nvfp4: is not computed here"* ]]
	[ "${lines[0]}" = $'what\tname\trows\tbefore\tafter\twithout_model\twithout_source' ]
	[ "$(cut -f 1-3 <<<"${lines[1]}")" = $'error\tall\t8' ]
	[ "$(cut -f 7 <<<"${lines[1]}")" = - ]
	awk -F '\t' '$2 == "all" { exit !($5 < $4 && $5 < 10 && $6 >= $5) }' <<<"$output"
	[[ $output == *$'constant\tfp8-efficiency\tkept\t0.9\t0.9\t'* ]]
	head -n 1 a.conf | grep -q '^# constants that mplan fit found in 8 steps: mean error'
	[ "$(grep -c ' # ' a.conf)" = "$(($(wc -l <a.conf) - 1))" ]
	time_of="mplan time --config 8b.conf --world-size 8 --gpu a100-80 --global-batch-size 16"
	$time_of --stack a.conf >fitted
	$time_of >own
	! cmp -s fitted own
	error=$(awk '$1 == "profile-error" { print $2 }' a.conf)
	[ "$(awk '$1 == "model_error_percent" { print $2 }' fitted)" = "$error" ]
	[ "$(awk '$1 == "model_error_percent" { print $2 }' own)" = - ]
	[ "$($time_of --stack megatron-lm | awk '$1 == "model_error_percent" { print $2 }')" = 1.7 ]
	mplan search -q --config 8b.conf --world-size 8 --gpu a100-80 --global-batch-size 16 \
		--stack megatron-lm --top 1 >found
	[ "$(wc -l <found)" = 2 ]
	mplan time --config 8b.conf --world-size 8 --gpu h100 --global-batch-size 16 \
		--use-distributed-optimizer --stack megatron-core |
		awk '$1 == "allocated_gib" { exit !($2 > 60 && $2 < 200) }'
	run -0 --separate-stderr mplan fit "$TOP/tests/bench/allocated.tsv" --rows smx-001 smx-002 --each
	[[ ${lines[-3]} == $'allocated\tsmx-001\t66.55\t'* ]]
	[ "$(cut -f 1-3 <<<"${lines[-1]}")" = $'memory\tdense\t2' ]
	fails 1 "mplan: 'a.conf' exists; --force replaces it" mplan fit rows.tsv -o a.conf
	fails 1 "mplan: rows.tsv: 1 rows, none of which is wanted and can be priced" mplan fit rows.tsv --rows y
	fails 2 "mplan: operands needed: metrics files of mtrain, or tables of measured steps" mplan fit
	fails 2 "mplan: --stack: cannot open 'none': No such file or directory" $time_of --stack none
	echo '{"iteration": 1, "seconds": 1}' >m.jsonl
	fails 1 "mplan: --gpu: is needed for the steps of m.jsonl" mplan fit m.jsonl
}
