#!/usr/bin/env bats
# mtrain.bats - bad options, bad data, numerical failures, inference: exit statuses and words of
# mtrain on one process

bats_require_minimum_version 1.5.0

setup_file()
{
	cd "$BATS_FILE_TMPDIR" || exit
	# 40 documents of 30 tokens below 100; in `first` the first begins with a token outside the
	# vocabulary.
	for i in $(seq 0 39); do
		printf '{"text": "%s"}\n' "$(seq -s ' ' "$i" $((i + 29)))"
	done >ids.jsonl
	sed '1s/: "0 /: "250 /' ids.jsonl >first.jsonl
	for name in ids first; do
		mtok -q -o $name --tokenizer-type NullTokenizer --vocab-size 300 $name.jsonl
	done
}

setup()
{
	mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || exit
	{ cat "$TOP/tests/tiny.conf" && printf '%s\n' 'micro-batch-size 2' 'train-iters 4'; } >tiny.conf
	ids=$BATS_FILE_TMPDIR/ids_text_document
	first=$BATS_FILE_TMPDIR/first_text_document
}

# fails STATUS LINE OPTIONS...: a tiny run ends with this status, exactly this line (notes apart) and
# no files
fails()
{
	local want_status=$1 want=$2
	shift 2
	case " $want $* " in
	*data-path* | *data-args-path* | *--mock-data* | *--tokens-file* | *--generate*) ;;
	*) set -- "$@" --mock-data ;;
	esac
	ls -A >../before
	run --separate-stderr mtrain -q --config tiny.conf "$@"
	[ "$status" = "$want_status" ] || { echo "status $status: $stderr" >&2; return 1; }
	[ "$stderr" = "mtrain: $want" ] || { printf 'got:  %s\nwant: mtrain: %s\n' "$stderr" "$want" >&2; return 1; }
	if [ "$want_status" = 2 ]; then
		[ -z "$output" ]
		ls -A | cmp - ../before
	fi
}

@test "impossible sizes: the option, the rule and a legal value" {
	fails 2 "--hidden-size 32: must be a multiple of --num-attention-heads 5 (try 35), or give --kv-channels" \
		--num-attention-heads 5
	fails 2 "--num-query-groups 3: must divide --num-attention-heads 4" \
		--group-query-attention --num-query-groups 3
	fails 2 "--global-batch-size 5: must be a multiple of --micro-batch-size x data-parallel size = 2 (try 4)" \
		--global-batch-size 5
	fails 2 "--seq-length 16: must be at most --max-position-embeddings 8" \
		--max-position-embeddings 8
	fails 2 "--micro-batch-size 0: must be from 1 to 1e+15" --micro-batch-size 0
	fails 2 "--global-batch-size 0: must be from 1 to 1e+15" --global-batch-size 0
	fails 2 "--lr -1: must be at least 0" --lr -1
	fails 2 "--distributed-timeout-minutes 0: must be from 0.01 to 1000000" \
		--distributed-timeout-minutes 0
	fails 2 "--lr-decay-style sine: must be one of constant, linear, cosine, inverse-square-root, WSD" --lr-decay-style sine
	fails 2 "--normalization BatchNorm: must be one of LayerNorm, RMSNorm" \
		--normalization BatchNorm
	fails 2 "--num-layers two: not an integer" --num-layers two
	fails 2 "--load: needs a value: DIR" --load
	fails 2 "--train-iters 1000000000000000: more than 2^53 samples; at most 90071992547409" \
		--train-iters 1000000000000000 --global-batch-size 100
	fails 2 "--eval-iters 1000000000000000: more than 2^53 samples; at most 2251799813685" \
		--eval-iters 1000000000000000 --train-iters 999 --eval-interval 1
	fails 2 "--split 'x': it has no share: a split is, for example, 969,30,1" --split x --mock-data
}

@test "impossible layouts" {
	fails 2 "1 ranks: must be a multiple of --tensor-model-parallel-size 2 x --pipeline-model-parallel-size 1 = 2 (try 2)" \
		--tensor-model-parallel-size 2
	fails 2 "6 ranks: must be a multiple of --tensor-model-parallel-size 2 x --pipeline-model-parallel-size 2 = 4 (try 4)" \
		--dry-run --world-size 6 --tensor-model-parallel-size 2 \
		--pipeline-model-parallel-size 2
	fails 2 "--tensor-model-parallel-size 3: must divide --num-attention-heads 4 (try 2); \
--tensor-model-parallel-size 3: must divide or be a multiple of --num-query-groups 4 (try 2); \
--tensor-model-parallel-size 3: must divide --ffn-hidden-size 128 (try 2)" \
		--dry-run --world-size 3 --tensor-model-parallel-size 3
	fails 2 "--pipeline-model-parallel-size 4: must be at most 3 for --num-layers 2 (try 3)" \
		--dry-run --world-size 4 --pipeline-model-parallel-size 4
	fails 2 "--mtp-num-layers 1: needs --pipeline-model-parallel-size 1 with --position-embedding-type learned_absolute" \
		--dry-run --world-size 2 --pipeline-model-parallel-size 2 --mtp-num-layers 1
	fails 2 "--pipeline-model-parallel-layout 'Et|m': more m than --mtp-num-layers" \
		--dry-run --world-size 2 --pipeline-model-parallel-size 2 \
		--pipeline-model-parallel-layout "Et|m"
	fails 2 "--num-virtual-stages-per-pipeline-rank 2: needs --pipeline-model-parallel-size of at least 2 (try 1)" \
		--num-virtual-stages-per-pipeline-rank 2
	fails 2 "--global-batch-size 3: makes 3 micro batches: must be a multiple of 2 with interleaved stages, or leave at least 2 (try 2)" \
		--dry-run --world-size 2 --pipeline-model-parallel-size 2 --num-layers 4 \
		--num-virtual-stages-per-pipeline-rank 2 --micro-batch-size 1 \
		--global-batch-size 3
	fails 2 "--tensor-model-parallel-size 4: must divide --ffn-hidden-size 130 (try 2)" \
		--dry-run --world-size 4 --tensor-model-parallel-size 4 --ffn-hidden-size 130
	fails 2 "--world-size: is for --dry-run; a run has the ranks that mpirun starts" \
		--world-size 2
}

@test "a dry run of absurd worlds and models takes 10 seconds of a processor at most" {
	(
		ulimit -t 10
		mtrain --config tiny.conf --mock-data --dry-run --world-size 512 --num-layers 51200 \
			--pipeline-model-parallel-size 512 --micro-batch-size 1 \
			--global-batch-size 1048576 >deep
		mtrain --config tiny.conf --mock-data --dry-run --world-size 1048576 \
			--micro-batch-size 1 --global-batch-size 1048576 >wide
	)
	[ "$(wc -l <deep)" = 513 ]
	[ "$(wc -l <wide)" = 1048577 ]
}

@test "options that exclude each other, that are missing, that need each other" {
	for option in experimental-attention-variant linear-attention-type; do
		fails 2 "--$option: needs --linear-attention-freq (4 is usual)" --$option gdn
		mtrain -q --config tiny.conf --mock-data --lr 1e-3 --train-iters 1 --dry-run \
			--linear-attention-freq 2 --$option gdn >/dev/null
	done
	fails 2 "--bf16, --fp16 and --fp64 exclude each other: give one of them" --bf16 --fp16
	fails 2 "--train-iters and --train-samples exclude each other: give one of them" \
		--train-samples 8
	fails 2 "--data-path: is needed (or --mock-data)"
	fails 2 "--tokens-file and --logits-file: need each other" --tokens-file x.npy
	fails 2 "--generate: needs a tokenizer (--tokenizer-model F, or --vocab-file F --merge-file F)" --generate 3
	fails 2 "'operand': mtrain takes no operands, after --mock-data, which takes no value" \
		--mock-data operand
	sed -i '/^lr\|^train-iters/d' tiny.conf
	fails 2 "needed: --train-iters (or --train-samples), --lr (1e-4 to 1e-3 is usual)" --mock-data
	fails 2 "--train-iters: is needed (or --train-samples)" --mock-data --lr 1
	fails 2 "--lr: is needed (1e-4 to 1e-3 is usual)" --mock-data --train-iters 1
}

@test "a batch that changes: one option says how, samples count the run, all sizes divide" {
	fails 2 "--train-iters 4: a run with --rampup-batch-size is counted in samples: give --train-samples" \
		--mock-data --rampup-batch-size 2 2 8
	sed -i '/^train-iters/d' tiny.conf
	fails 2 "--rampup-batch-size 3: must be a multiple of --micro-batch-size x data-parallel size = 2 (try 2)" \
		--mock-data --train-samples 16 --rampup-batch-size 2 1 8
	fails 2 "--step-batch-size-schedule: excludes --global-batch-size: give one of them" \
		--mock-data --train-samples 16 --step-batch-size-schedule 0:2
	sed -i '/^global-batch-size/d' tiny.conf
	fails 2 "--rampup-batch-size: needs --global-batch-size, the size that it leads to" \
		--mock-data --train-samples 16 --rampup-batch-size 2 2 8
	fails 2 "--step-batch-size-schedule: excludes --rampup-batch-size: give one of them" \
		--mock-data --train-samples 16 --rampup-batch-size 2 2 8 --step-batch-size-schedule 0:2
	fails 2 "--train-iters 4: a run with --step-batch-size-schedule is counted in samples: give --train-samples" \
		--mock-data --step-batch-size-schedule 0:2 --train-iters 4
	# The record of the options can be read back.
	mtrain -q --config tiny.conf --mock-data --train-samples 16 --save s \
		--step-batch-size-schedule "0:2, 64:4" >/dev/null
	mtrain -q --config s/iter_0000005/options.conf --load s
}

@test "the batch of an evaluation divides, and what says when memory is freed is accepted" {
	fails 2 "--eval-global-batch-size 3: must be a multiple of --micro-batch-size x data-parallel size = 2 (try 2)" \
		--mock-data --eval-global-batch-size 3
	fails 2 "--eval-micro-batch-size 3: a batch of an evaluation has 4 samples, which must be a multiple of --eval-micro-batch-size x data-parallel size = 3" \
		--mock-data --eval-micro-batch-size 3
	fails 2 "--eval-micro-batch-size 100000000: seq-length x eval-micro-batch-size must be below 2^30" \
		--mock-data --eval-micro-batch-size 100000000 --eval-global-batch-size 100000000
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data \
		--empty-unused-memory-level 2 --no-manual-gc-eval
	[[ $stderr == *"mtrain: without effect here: --empty-unused-memory-level (memory is planned and taken \
before the first step), --no-manual-gc-eval (there is no garbage collector)"* ]]
}

@test "--iterations-to-skip takes numbers" {
	fails 2 "--iterations-to-skip 0: must be a whole number from 1 to 1e15" --mock-data \
		--iterations-to-skip 3 0
	fails 2 "--iterations-to-skip 3x: must be a whole number from 1 to 1e15" --mock-data \
		--iterations-to-skip 3x
}

@test "--rewind-on-spike: its form, what it needs and excludes" {
	local rule="must be FACTOR:WINDOW[:TIMES], a number above 1 and whole numbers from 1 to 1000 and from 1 to 100"
	for text in 1:8 2 2: 2:0 2:1001 2:8: 2:8:0 2:8:101 2:8:1:1 2:8x inf:8 1e9:8; do
		fails 2 "--rewind-on-spike $text: $rule" --mock-data --save s --save-interval 1 \
			--rewind-on-spike $text
	done
	fails 2 "--rewind-on-spike 2:8: needs --save, for checkpoints to go back to" --mock-data \
		--rewind-on-spike 2:8
	fails 2 "--rewind-on-spike 2:8: needs --save-interval, for checkpoints to go back to" \
		--mock-data --rewind-on-spike 2:8 --save s
	fails 2 "--rewind-on-spike 2:8: excludes --no-save-optim: a run cannot go back without the optimizer state" \
		--mock-data --rewind-on-spike 2:8 --save s --save-interval 1 --no-save-optim
}

@test "lengths of the schedule that Megatron-LM asserts against" {
	fails 2 "--lr-decay-samples 64: is for --train-samples; --train-iters 4 takes --lr-decay-iters" --mock-data --lr-decay-samples 64
	fails 2 "--lr-warmup-samples 8: is for --train-samples; --train-iters 4 takes --lr-warmup-iters" --mock-data --lr-warmup-samples 8
	fails 2 "--lr-warmup-fraction 0.1: excludes --lr-warmup-iters 2: give one of them" \
		--mock-data --lr-warmup-fraction 0.1 --lr-warmup-iters 2
	fails 2 "--lr-decay-style WSD: needs --lr-wsd-decay-iters, the length of its tail" \
		--mock-data --lr-decay-style WSD
	fails 2 "--lr-decay-style WSD: needs --lr-wsd-decay-iters, the length of its tail" \
		--mock-data --lr-decay-style WSD --lr-wsd-decay-samples 4
	sed -i '/^train-iters/d' tiny.conf
	fails 2 "--lr-decay-iters 4: is for --train-iters; --train-samples 16 takes --lr-decay-samples" --mock-data --train-samples 16 \
		--lr-decay-iters 4
	fails 2 "--lr-warmup-iters 1: is for --train-iters; --train-samples 16 takes --lr-warmup-samples" --mock-data \
		--train-samples 16 --lr-warmup-iters 1
	fails 2 "--lr-warmup-fraction 0.1: excludes --lr-warmup-samples 5: give one of them" \
		--mock-data --train-samples 16 --lr-warmup-fraction 0.1 --lr-warmup-samples 5
	fails 2 "--lr-decay-style WSD: needs --lr-wsd-decay-samples, the length of its tail" \
		--mock-data --train-samples 16 --lr-decay-style WSD
	# A length of 0 counts as not given, but a tail of 0 is a tail.
	mtrain -q --config tiny.conf --mock-data --train-samples 16 --lr-warmup-iters 0 \
		--lr-decay-style WSD --lr-wsd-decay-samples 0
	mtrain -q --config tiny.conf --mock-data --skip-train --eval-iters 1 --train-iters 4 \
		--lr-decay-samples 64
}

@test "weight decay that Megatron-LM asserts against" {
	fails 2 "--start-weight-decay 0.1: --weight-decay-incr-style constant takes --weight-decay" --mock-data \
		--start-weight-decay 0.1
	fails 2 "--end-weight-decay 0.2: --weight-decay-incr-style constant takes --weight-decay" --mock-data \
		--end-weight-decay 0.2 --weight-decay 0.2
	fails 2 "--weight-decay-incr-style linear: needs --start-weight-decay and --end-weight-decay" --mock-data \
		--weight-decay-incr-style linear --end-weight-decay 0.1
	fails 2 "--weight-decay-incr-style cosine: needs --start-weight-decay and --end-weight-decay" --mock-data \
		--weight-decay-incr-style cosine
	fails 2 "--start-weight-decay 0.2: must be at most --end-weight-decay 0.1" --mock-data \
		--weight-decay-incr-style linear --start-weight-decay 0.2 --end-weight-decay 0.1
	mtrain -q --config tiny.conf --mock-data --weight-decay-incr-style linear \
		--start-weight-decay 0.1 --end-weight-decay 0.1
}

@test "other combinations that Megatron-LM asserts against" {
	fails 2 "--override-opt_param-scheduler: excludes --use-checkpoint-opt_param-scheduler: give one of them" --mock-data \
		--override-opt_param-scheduler --use-checkpoint-opt_param-scheduler
	fails 2 "--mock-data: excludes --data-path: give one source of data" --mock-data \
		--data-path "$ids"
	fails 2 "--mock-data: excludes --valid-data-path: give one source of data" --mock-data \
		--valid-data-path "$ids"
	fails 2 "--min-loss-scale 8: must be at most --initial-loss-scale 4" --mock-data --fp16 \
		--min-loss-scale 8 --initial-loss-scale 4
	fails 2 "--min-loss-scale 0: must be above 0; 1 is usual" --mock-data --fp16 \
		--min-loss-scale 0
	fails 2 "--swiglu and --squared-relu exclude each other: give one of them" --mock-data \
		--swiglu --squared-relu
	fails 2 "--no-position-embedding: is for --position-embedding-type rope; none is a model without positions" --mock-data \
		--no-position-embedding
	fails 2 "--seq-length 16: must be at most --max-position-embeddings 8" --mock-data \
		--position-embedding-type rope --max-position-embeddings 8
	fails 2 "--recompute-method: is for --recompute-granularity full" --mock-data \
		--recompute-activations --recompute-granularity full --recompute-method block
}

@test "the learning rate of each step is Megatron-LM's, lengths in samples or as a share included" {
	sed -i '/^lr\|^train-iters/d' tiny.conf
	for options in "--train-iters 29 --lr 0.001 --lr-decay-style cosine --lr-warmup-fraction 0.29" \
		"--train-samples 118 --lr 0.001 --lr-decay-style cosine --lr-warmup-samples 7 --min-lr 0.0"; do
		awk -v want="$options" '/^--/ { on = $0 == want; next } on { print $1 }' \
			"$TOP/tests/golden/data/schedule.txt" >want
		mtrain -q --config tiny.conf --mock-data $options --metrics-file log >/dev/null
		sed 's/.*"lr": \([^,]*\).*/\1/' log | paste want - >both
		[ "$(wc -l <both)" = 29 ]
		awk '{ d = $1 - $2; if (d * d > 1e-28 * $1 * $1) exit 1 }' both
	done
}

@test "word embeddings and head may have a learning rate of their own" {
	local run="--mock-data --train-iters 1 --untie-embeddings-and-output-weights" table
	mtrain -q --config tiny.conf $run --save both --lr 1e-3 --decoupled-lr 4e-3 \
		--decoupled-min-lr 1e-3 --metrics-file log >out
	mtrain -q --config tiny.conf $run --save layers --lr 1e-3 >/dev/null
	mtrain -q --config tiny.conf $run --save tables --lr 4e-3 --min-lr 1e-3 >/dev/null
	grep -q "learning rate: 1.000000E-03 | decoupled learning rate: 4.000000E-03 | global" out
	grep -q '"lr": 0.001.*, "decoupled_lr": 0.004' log
	for table in "embedding.word*" "output_layer*"; do
		mckpt diff -q --only "$table" both tables
		run -1 mckpt diff -q --only "$table" both layers
	done
	mckpt diff -q --only "embedding.pos*" both layers
	mckpt diff -q --only "decoder*" both layers
	fails 2 "--decoupled-min-lr 1: must be at most --decoupled-lr 0.5" --mock-data \
		--decoupled-lr 0.5 --decoupled-min-lr 1
	# The rates are part of the schedule that a resumed run must have.
	run -1 mtrain -q --config tiny.conf $run --load both --lr 1e-3
	[[ "$output" = *"the learning-rate schedule differs from the checkpoint's"* ]]
	mtrain -q --config tiny.conf $run --train-iters 2 --load both --lr 1 \
		--use-checkpoint-opt_param-scheduler --metrics-file log >/dev/null
	grep -q '"decoupled_lr": 0.001' log
}

@test "layers that leave: what they exclude, and what the host keeps of them" {
	fails 2 "--cpu-offloading-num-layers 2: must be less than --num-layers 2" --mock-data \
		--cpu-offloading-num-layers 2
	plan()
	{
		mtrain -q --config tiny.conf --mock-data --num-layers 6 --cpu-offloading-num-layers 5 \
			--dry-run "$@"
	}
	bytes=$(plan | awk 'NR == 2 { print $11 }')
	[ "$bytes" -gt 0 ]
	[ "$(plan --eval-global-batch-size 8 --eval-micro-batch-size 8 | awk 'NR == 2 { print $11 }')" = "$bytes" ]
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --num-layers 6 \
		--cpu-offloading-num-layers 5 --cpu-offloading-retain-pinned-cpu-buffers --timing-log-level 1
	[[ $stderr == *" bytes, and $bytes on the host"* ]]
	[[ $stderr == *"--cpu-offloading-retain-pinned-cpu-buffers (memory is planned"* ]]
}

@test "updates by the host: what they exclude" {
	fails 2 "--optimizer-cpu-offload: needs --optimizer adam, not sgd" --mock-data \
		--optimizer-cpu-offload --optimizer sgd
	fails 2 "--optimizer-offload-fraction 0.5: must be 0 or 1 where pipeline stages have copies of one table; \
--untie-embeddings-and-output-weights makes them two" --dry-run --world-size 2 --optimizer-cpu-offload \
		--optimizer-offload-fraction 0.5 --pipeline-model-parallel-size 2
	run --separate-stderr mpirun -np 2 mtrain --use-mcore-models --num-layers 2 --hidden-size 64 \
		--ffn-hidden-size 128 --num-attention-heads 4 --group-query-attention \
		--num-query-groups 2 --kv-channels 16 --seq-length 32 --max-position-embeddings 32 \
		--position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0 \
		--attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --normalization RMSNorm \
		--init-method-std 0.0134 --attention-backend fused --apply-layernorm-1p \
		--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 \
		--global-batch-size 4 --train-samples 12 --lr-decay-samples 10 --lr-warmup-samples 2 \
		--lr 0.00015 --min-lr 0.00001 --decoupled-lr 5.0e-4 --decoupled-min-lr 4.5e-5 \
		--lr-decay-style cosine --clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 \
		--adam-beta2 0.95 --bf16 --grad-reduce-in-bf16 --cross-entropy-loss-fusion \
		--calculate-per-token-loss --manual-gc --empty-unused-memory-level 1 \
		--exit-duration-in-mins 235 --fp8-format hybrid --fp8-amax-history-len 1024 \
		--fp8-amax-compute-algo max --fp8-param-gather --tensor-model-parallel-size 1 --context-parallel-size 2 \
		--sequence-parallel --use-distributed-optimizer --overlap-grad-reduce \
		--overlap-param-gather --mock-data --tokenizer-type NullTokenizer --vocab-size 128 \
		--data-cache-path cache --tiktoken-pattern v2 --split '99,1,0' \
		--no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 \
		--log-interval 1 --eval-iters 2 --eval-interval 100 --save-interval 1000 \
		--log-throughput --profile --profile-step-start 1 --profile-step-end 2 \
		--ckpt-format torch_dist --distributed-timeout-minutes 60 --save S --load S \
		--tensorboard-dir T
	[ "$status" = 0 ]
	grep -q "^ .*iteration *3/ *3 .*decoupled learning rate" <<<"$output"
	grep -qx "mtrain: --attention-backend fused: changes nothing on the cpu backend, which has one attention" \
		<<<"$stderr"
	[ -d S/iter_0000003 ] && [ -s profile.tsv ] && ls T/events* >/dev/null
}

@test "what the CPU backend cannot compute is refused with the options" {
	fails 2 "--kv-channels 1024: the cpu backend computes heads of at most 512; with more --num-attention-heads \
they are narrower" \
		--mock-data --kv-channels 1024
	fails 2 "--hidden-size 65536: the cpu backend computes at most 32768" --mock-data \
		--hidden-size 65536 --num-attention-heads 256
	fails 2 "--hidden-size 65536: the cpu backend computes at most 32768" --dry-run \
		--backend cpu --hidden-size 65536 --num-attention-heads 256
}

@test "missing files" {
	fails 2 "--data-path none: there is no 'none.idx'; give the prefix without .bin or .idx" \
		--data-path none
	cp "$ids.idx" half.idx
	fails 2 "--data-path half: there is no 'half.bin'; give the prefix without .bin or .idx" \
		--data-path half
	echo '{"text": "1"}' >text.jsonl
	fails 2 "--data-path text.jsonl: there is no 'text.jsonl.idx'; what has this name is no dataset: \
\`mtok -o PREFIX\` makes one of text" --data-path text.jsonl
	fails 2 "cannot open 'owner/model-1.5': no such file or directory; nothing is downloaded from a hub: give a \
directory with its config.json" --model owner/model-1.5
	fails 2 "--tokens-file t.npy: no such file" --tokens-file t.npy --logits-file l.npy
	fails 2 "cannot open 'm.model': No such file or directory" --tokenizer-model m.model \
		--mock-data
	fails 2 "cannot open 'other.conf': No such file or directory" --config other.conf
	fails 2 "--pretrained-checkpoint nowhere: no such directory" --mock-data \
		--pretrained-checkpoint nowhere
	fails 1 "cannot create directory '/proc/nowhere': No such file or directory" --mock-data \
		--save /proc/nowhere
}

@test "unknown options and those of Megatron-LM's that are not supported" {
	fails 2 "unknown option '--num-layer'; the nearest is '--num-layers'" --num-layer 3
	fails 2 "unknown option '--frobnicate'; --help lists the options" --frobnicate
	run --separate-stderr mtrain --dry-run --config tiny.conf --moe-input-jitter-eps 0.1 --mtp-use-repeated-layer \
		--delay-wgrad-compute --fp4-format e2m1
	[ "$status" = 2 ]
	[ "$stderr" = "mtrain: 3 options cannot be used as given:
mtrain: --moe-input-jitter-eps: jitter of the input of routers is not supported
mtrain: --mtp-use-repeated-layer: layers never share weights
mtrain: --fp4-format: FP4 is not supported" ]
	run --separate-stderr mtrain --dry-run --config tiny.conf --mock-data --delay-wgrad-compute \
		--wgrad-deferral-limit 3 --use-mpi
	[ "$status" = 0 ]
	[ "${stderr_lines[0]}" = "mtrain: without effect here: --delay-wgrad-compute, --wgrad-deferral-limit (only \
tunes speed or memory), --use-mpi (communication is MPI between CPUs and NCCL between GPUs)" ]
}

@test "experts: rules of options and layouts, and what is not supported" {
	experts="--disable-bias-linear --num-experts 8 --mock-data"
	fails 2 "--moe-router-load-balancing-type sinkhorn: is not supported: must be aux_loss, \
seq_aux_loss, global_aux_loss or none" $experts --moe-router-load-balancing-type sinkhorn
	run -0 --separate-stderr mtrain $experts --config tiny.conf --dry-run --world-size 2 \
		--moe-router-load-balancing-type global_aux_loss --moe-aux-loss-coeff 0.02
	[[ "$stderr" == *"global_aux_loss by the number of data ranks: --moe-aux-loss-coeff 0.01 is the same with 2 of them"* ]]
	fails 2 "--expert-model-parallel-size 2: needs --num-experts" \
		--expert-model-parallel-size 2 --mock-data
	fails 2 "--expert-tensor-parallel-size 2, that of --tensor-model-parallel-size: must divide \
--moe-ffn-hidden-size 33 (try 1); --num-experts: tensor ranks must have rows of their own: give \
--sequence-parallel" \
		$experts --moe-ffn-hidden-size 33 --dry-run --world-size 2 --tensor-model-parallel-size 2
	fails 2 "--expert-tensor-parallel-size 3: must divide the ranks of a pipeline stage, 4 (try 2)" \
		$experts --moe-ffn-hidden-size 36 --dry-run --world-size 4 --expert-tensor-parallel-size 3
	fails 2 "--expert-model-parallel-size 4: must divide the ranks of a pipeline stage divided by \
--expert-tensor-parallel-size, 2 (try 2)" $experts --dry-run --world-size 4 \
		--expert-model-parallel-size 4 --expert-tensor-parallel-size 2
	fails 2 "--expert-model-parallel-size 3: must divide --num-experts 8 (try 2)" \
		$experts --dry-run --world-size 3 --expert-model-parallel-size 3
	fails 2 "--expert-model-parallel-size 8: must divide the ranks of a pipeline stage, 4 (try 4)" \
		$experts --dry-run --world-size 4 --expert-model-parallel-size 8
}

@test "experts: a resumed run has the same bits, with biases, recomputed or not" {
	run="--config tiny.conf --mock-data --disable-bias-linear --swiglu --num-experts 4 --seed 3
		--moe-router-score-function sigmoid --moe-router-enable-expert-bias
		--moe-aux-loss-coeff 0.01 --train-iters 4 --attention-dropout 0 --hidden-dropout 0"
	mtrain -q $run --save whole --metrics-file whole.jsonl >log
	grep -q '| load_balancing_loss: 1.0.* | router z_loss: ' log
	grep -q '"load_balancing_loss": 1.0.*"max_expert_load": [12]' whole.jsonl
	[ "$(grep -c '"layer": [01], "expert_load": \[.*,.*,.*,.*\]' whole.jsonl)" = 8 ]
	mtrain -q $run --save half --exit-interval 2 || [ "$?" = 3 ]
	mtrain -q $run --load half --save half
	mckpt diff whole half
	mtrain -q $run --save again --recompute-granularity full
	mckpt diff whole again
	mckpt cat whole decoder.layers.0.mlp.router.expert_bias | grep -q -- -0.00
}

@test "however many options are refused, all are named" {
	grep -o 'DO(SCOPE, "[a-z0-9-]*", [0-9A-Z_]*, rl)' "$TOP/train/config/foreign_list.h" |
		cut -d '"' -f 2 | head -40 >names
	[ "$(wc -l <names)" = 40 ]
	run --separate-stderr mtrain --dry-run --config tiny.conf $(sed 's/^/--/' names)
	[ "$status" = 2 ] && [ "${#stderr_lines[@]}" = 1 ]
	while read -r name; do
		[[ $stderr == *"--$name"* ]]
	done <names
}

@test "under mpirun one rank says it, once" {
	run --separate-stderr mpirun -np 2 mtrain --config tiny.conf --mock-data \
		--num-attention-heads 5
	[ "$status" = 2 ]
	[ "$(grep -c mtrain: <<<"$stderr")" = 1 ]
	run --separate-stderr mpirun -np 2 mtrain --config none.conf
	[ "$status" = 2 ]
	[ "$(grep -c 'mtrain: cannot open' <<<"$stderr")" = 1 ]
	run --separate-stderr mpirun -np 2 mtrain --help
	[ "$status" = 0 ]
	[ "$(grep -c '^usage: ' <<<"$output")" = 1 ]
}

@test "a process that no launcher has started does without MPI" {
	export OMPI_MCA_pml=none-such
	mtrain --config tiny.conf --mock-data --train-iters 2
	run mpirun -np 1 mtrain --config tiny.conf --mock-data --train-iters 2
	[ "$status" != 0 ]
}

@test "a token outside the vocabulary stops the run at its batch" {
	[ -e "$first.bin" ]
	run --separate-stderr mtrain -q --config tiny.conf --data-path "$first" --split 1,0,0 \
		--train-iters 40 --save S --save-interval 1 --data-cache-path cache
	[ "$status" = 1 ]
	[[ $stderr == "mtrain: $first: document 0: token id 250 is outside the vocabulary of 100 (train sample "*")" ]]
	steps=${#lines[@]}
	[ "$steps" -gt 0 ] && [ "$steps" -lt 40 ]
	[ "$(cat S/latest_checkpointed_iteration.txt)" = "$steps" ]
	mckpt verify S
	# The same holds when saves are rare, and when they are written during the steps.
	for how in "--save-interval 30" "--save-interval 1 --async-save" "--save-interval $((steps - 1)) --async-save"; do
		rm -r S
		run -1 mtrain -q --config tiny.conf --data-path "$first" --split 1,0,0 \
			--train-iters 40 --save S $how --data-cache-path cache
		[ "$(cat S/latest_checkpointed_iteration.txt)" = "$steps" ]
		mckpt verify S
	done
	# On two ranks of any kind one of them reports it.
	for layout in "--tensor-model-parallel-size 2" "--pipeline-model-parallel-size 2" --use-distributed-optimizer; do
		run --separate-stderr mpirun -np 2 mtrain -q --config tiny.conf $layout \
			--data-path "$first" --split 1,0,0 --train-iters 40 --data-cache-path cache
		[ "$status" = 1 ]
		[ "$(grep -c 'mtrain\[.\]: ' <<<"$stderr")" = 1 ]
		[[ $stderr == *"mtrain[0]: $first: document 0: token id 250 is outside the vocabulary of 100 (train sample "* ]]
		[ "${#lines[@]}" = "$steps" ]
	done
}

@test "a token outside the vocabulary in an evaluation: what was trained is saved" {
	for interval in 2 100; do
		run --separate-stderr mtrain -q --config tiny.conf --train-data-path "$ids" \
			--valid-data-path "$first" --full-validation --eval-iters 1 \
			--eval-interval $interval --save S --save-interval 1 --async-save \
			--data-cache-path cache
		[ "$status" = 1 ]
		[[ $stderr == "mtrain: $first: document 0: token id 250 is outside the vocabulary of 100 (valid sample "*")" ]]
		[ "$(cat S/latest_checkpointed_iteration.txt)" = $((interval == 2 ? 2 : 4)) ]
		mckpt verify S
		run --separate-stderr mtrain -q --config tiny.conf --skip-train --load S \
			--valid-data-path "$first" --full-validation --eval-iters 1 \
			--data-cache-path cache
		[ "$status" = 1 ]
		[[ $stderr == "mtrain: $first: document 0: token id 250 is outside the vocabulary of 100 (valid sample "*")" ]]
		rm -r S
	done
}

@test "a split that is too small to hold a sample" {
	fails 1 "$ids: the valid split has 0 tokens: --split '998,1,1' gives it the share 0.001 of 40 sequences, \
which is 0; at least 2 tokens are needed: --split 38,1,1 gives some to every split" --data-path "$ids" --split 998,1,1 --eval-iters 1 --data-cache-path cache
	run mtrain -q --config tiny.conf --data-path "$ids" --split 998,1,1 --data-cache-path cache
	[ "$status" = 0 ]
}

@test "how data ranks share: contradictions, and a note of the traffic in a pipeline" {
	local dry="--mock-data --dry-run --world-size 4"
	fails 2 "--data-parallel-sharding-strategy no_shard: with --use-distributed-optimizer it must be optim, optim_grads or \
optim_grads_params" $dry --use-distributed-optimizer --data-parallel-sharding-strategy no_shard
	fails 2 "--use-megatron-fsdp and --use-torch-fsdp2 exclude each other" $dry \
		--use-megatron-fsdp --use-torch-fsdp2
	for what in grad-reduce param-gather; do
		fails 2 "--overlap-$what and --no-overlap-$what exclude each other: give one of them" \
			$dry --global-batch-size 8 --no-overlap-$what --overlap-$what
	done
	note() { mtrain --config tiny.conf $dry --micro-batch-size 1 "$@" 2>&1 >/dev/null | grep sharding; }
	run note --use-megatron-fsdp --data-parallel-sharding-strategy optim_grads \
		--pipeline-model-parallel-size 2
	[ "$output" = "mtrain: --data-parallel-sharding-strategy optim_grads: a step reduces gradients 2 times, once per micro \
batch; with optim, once" ]
	run note --use-torch-fsdp2 --pipeline-model-parallel-size 2
	[ "$output" = "mtrain: --data-parallel-sharding-strategy optim_grads_params: a step reduces gradients 2 times, once per \
micro batch, and gathers weights up to 4 times, once per pass; with optim, once" ]
	run note --use-distributed-optimizer --pipeline-model-parallel-size 2
	[ -z "$output" ]
	run note --use-torch-fsdp2
	[ -z "$output" ]
}

@test "a split that is absent is not evaluated" {
	run mtrain -q --config tiny.conf --data-path "$ids" --split 1,0,0 --eval-iters 1 \
		--data-cache-path cache
	[ "$status" = 0 ]
	[[ $output != *"loss at iteration"* ]]
	run mtrain -q --config tiny.conf --data-path "$ids" --split 1,1,0 --eval-iters 1 \
		--data-cache-path cache
	[ "$status" = 0 ]
	[[ $output == *" validation loss at iteration 4 on validation set | lm loss value: "* ]]
	[[ $output != *"on test set"* ]]
}

@test "NaN: the first bad tensor is named, exit status 5, the last checkpoint is intact" {
	fails 5 "iteration 2: the loss is not finite (loss nan); first: rank 0, micro \
batch 0, forward pass of layer 0: 'c' of gemm forward (3072 of 3072): stopping; the last checkpoint is intact" \
		--mock-data --lr 1e30 --save S --save-interval 1
	[ "$(cat S/latest_checkpointed_iteration.txt)" = 1 ]
	mckpt verify S
}

@test "NaN: a save beside the steps is ended, on one rank and on two" {
	for launch in "" "mpirun -np 2"; do
		run --separate-stderr $launch mtrain -q --config tiny.conf --mock-data --lr 1e30 \
			--save S --save-interval 1 --async-save
		[ "$status" = 5 ]
		[[ $stderr == *"iteration 2: the loss is not finite "*"; the last checkpoint is intact"* ]]
		[ "$(cat S/latest_checkpointed_iteration.txt)" = 1 ]
		run --separate-stderr mtrain -q --config tiny.conf --mock-data --lr 1e30 --load S \
			--skip-train --eval-iters 1
		[ "$status" = 0 ]
		rm -r S
	done
}

@test "NaN: the operation is found in every type of a run" {
	first() { sed -n 's/.*; first: \(rank 0, .*\): stopping.*/\1/p' <<<"$stderr"; }
	run -5 --separate-stderr mtrain -q --config tiny.conf --mock-data --lr 1e30
	[ "$(first)" = "rank 0, micro batch 0, forward pass of layer 0: 'c' of gemm forward (3072 of 3072)" ]
	run -5 --separate-stderr mtrain -q --config tiny.conf --mock-data --lr 1e200 --fp64
	[ "$(first)" = "rank 0, micro batch 0, forward pass of layer 0: 'c' of gemm forward (3072 of 3072)" ]
}

@test "--timing-log-level: what a step spends its time on, after each log line" {
	fails 2 "--timing-log-level 3: must be from 0 to 2" --timing-log-level 3
	fails 2 "--timing-log-option some: must be one of max, minmax, all" --timing-log-option some
	times() { mtrain -q --config tiny.conf --mock-data --log-interval 4 "$@" | sed '1d; s/[0-9.]*[0-9]/N/g'; }
	[ -z "$(times)" ]
	[ "$(times --timing-log-level 1)" = "(min, max) time across ranks (ms):
    interval-time ..................................: (N, N)
    forward-backward ...............................: (N, N)
    all-grads-sync .................................: (N, N)
    optimizer-clip-main-grad .......................: (N, N)
    totals-all-gather ..............................: (N, N)
    optimizer ......................................: (N, N)
    between-steps ..................................: (N, N)" ]
	[ "$(times --timing-log-level 1 --timing-log-option all)" = "times across ranks (ms):
  interval-time:
     rank  N: N
  forward-backward:
     rank  N: N
  all-grads-sync:
     rank  N: N
  optimizer-clip-main-grad:
     rank  N: N
  totals-all-gather:
     rank  N: N
  optimizer:
     rank  N: N
  between-steps:
     rank  N: N" ]
	[ "$(times --timing-log-level 2 --timing-log-option max | grep -c compute)" = 2 ]
}

@test "--log-ceiling: the share of the rate that the run's own GEMM reaches" {
	sed -i '/hidden-size/d' tiny.conf
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --log-ceiling \
		--hidden-size 256 --seq-length 128 --metrics-file m.jsonl
	[[ $stderr =~ "mtrain: the ceiling is "([0-9.e-]+)" TFLOP/s per rank: GEMMs of [256, 256] by [256, 1024] on all ranks at once" ]]
	ceiling=${BASH_REMATCH[1]}
	[ "$(grep -c ' tokens per second: [0-9]* | share of ceiling (%): [0-9.]* |' <<<"$output")" = 4 ]
	# It is the throughput divided by the ceiling.
	awk -F'[:,}]' -v ceiling="$ceiling" '{
		for (i = 1; i < NF; i++) {
			if ($i ~ /tflops_per_rank/) rate = $(i + 1)
			if ($i ~ /ceiling_share/) share = $(i + 1)
		}
		d = share - rate / ceiling
		if (!(share > 0 && d * d < 1e-4 * share * share)) exit 1
	} END { exit NR != 4 }' m.jsonl
}

@test "--log-energy without a meter: one note, and nothing is logged" {
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --log-energy \
		--metrics-file m.jsonl --log-straggler
	[ "$(grep -c -- --log-energy <<<"$stderr")" = 1 ]
	[[ $stderr == *"mtrain: --log-energy: 1 of 1 devices have no energy meter (cpu): no energy is logged"* ]]
	[[ $output != *energy* && $output != *power* && $output != *Pwr* ]]
	[ "$(grep -c '"joules": null, "watts_per_rank": null, "seconds": ' m.jsonl)" = 4 ]
}

@test "--profile: a table of operations, a trace; the run is the same" {
	mtrain -q --config tiny.conf --mock-data --metrics-file plain >/dev/null
	mtrain -q --config tiny.conf --mock-data --metrics-file profiled --profile \
		--profile-step-start 1 --profile-step-end 3 --profile-prefix p >/dev/null
	diff <(sed 's/, "tokens_per_second.*//' plain) <(sed 's/, "tokens_per_second.*//' profiled)
	[ "$(sed -n 2p p.tsv)" = "$(printf 'operation\tcalls\tms\tshare\tgflop\tmbytes\ttflops\tgbytes_per_second\troofline')" ]
	[[ "$(head -n 1 p.tsv)" == "# 2 steps; ceilings measured: "* ]]
	# Every operation appears once per step, and the shares of the rows add up.
	[ "$(awk -F '\t' '$1 == "attention_bwd" { print $2 }' p.tsv)" = 4 ]
	awk -F '\t' 'NR > 2 { sum += $4 } END { exit !(sum > 0.99 && sum < 1.01) }' p.tsv
	[ "$(grep -c '"ph": "X"' p.json)" = "$(awk -F '\t' 'NR > 2 { sum += 2 * $2 } END { print sum }' p.tsv)" ]
	mtrain -q --config tiny.conf --mock-data --profile --profile-step-start 0 \
		--profile-step-end 1 --profile-prefix no/where >/dev/null 2>err
	grep -q "^mtrain: .*no/where" err
}

@test "fp16: overflows are skipped and counted; one at the least scale is a failure" {
	run --separate-stderr mtrain -q --config tiny.conf --mock-data --fp16 --train-iters 40 \
		--log-interval 40 --metrics-file log
	[ "$status" = 0 ]
	skipped=$(grep -c '"skipped": true' log)
	[ "$skipped" -gt 10 ] && [ "$skipped" -lt 40 ]
	[[ $output == *"number of skipped iterations: $(printf %3d "$skipped") |"* ]]
	# A step that was skipped has neither a mean of losses nor a norm to print, and the loss
	# itself was not NaN.
	run mtrain -q --config tiny.conf --mock-data --fp16 --metrics-file log
	[ "$(grep -c '"grad_norm": null, .*"skipped": true' log)" = 4 ]
	[ "${#lines[@]}" = 4 ]
	[[ $output != *NAN* ]]
	[[ $output != *"lm loss"* ]]
	[[ $output != *"grad norm"* ]]
	[ "$(grep -c 'number of skipped iterations:   1 | number of nan iterations:   0 |' <<<"$output")" = 4 ]
	run --separate-stderr mtrain -q --config tiny.conf --mock-data --fp16 --lr 1e30 \
		--train-iters 200
	[ "$status" = 5 ]
	# Weights of 1e30 are infinite in fp16: the loss is not a number at any scale, and the run
	# stops at the first step that sees it.
	[ "$(grep -c 'number of skipped iterations:   0' <<<"$output")" = 1 ]
	[ "$(grep -n 'number of skipped iterations:   0' <<<"$output" | cut -d: -f1)" = "${#lines[@]}" ]
	[[ $stderr == "mtrain: iteration $((${#lines[@]} + 1)): the parameter 'embedding.word_embeddings.weight' is not finite \
(loss nan); first: rank 0, micro batch 0, forward pass of the embedding: "*": stopping; the last checkpoint is intact" ]]
	# A gradient that is too large arises in the head and spreads down: the parameter nearest to
	# the head is named.
	run -5 --separate-stderr mtrain -q --config tiny.conf --mock-data --fp16 \
		--loss-scale 4194304
	[[ $stderr == "mtrain: iteration 1: the gradient of 'decoder.layers.1.mlp.linear_down.bias' is not finite (loss 4."* ]]
}

@test "fp16: the loss scale multiplies the mean over the 64 tokens of a batch; 0 is dynamic" {
	# 2^20 times the sum would be beyond fp16.
	mtrain -q --config tiny.conf --mock-data --fp16 --loss-scale 1048576 --metrics-file fixed \
		>/dev/null
	[ "$(grep -c '"loss_scale": 1048576, "skipped": false' fixed)" = 4 ]
	run -5 mtrain -q --config tiny.conf --mock-data --fp16 --loss-scale 4194304
	mtrain -q --config tiny.conf --mock-data --fp16 --train-iters 20 --metrics-file dynamic \
		>/dev/null
	mtrain -q --config tiny.conf --mock-data --fp16 --train-iters 20 --metrics-file zero \
		--loss-scale 0 >/dev/null
	diff <(sed 's/, "tokens_per_second.*//' dynamic) <(sed 's/, "tokens_per_second.*//' zero)
	grep -q '"loss_scale": 4294967296, "skipped": true' zero
}

@test "fp16: a checkpoint whose loss scale multiplied a sum continues as it was" {
	local run="--config tiny.conf --mock-data --fp16 --initial-loss-scale 8388608 --loss-scale-window 2 --train-iters 8 --save-interval 4"
	mtrain -q $run --save S --metrics-file straight >/dev/null
	grep -q '"skipped": true' straight
	[ "$(grep '^loss_scale_of ' S/iter_0000004/state.conf)" = "loss_scale_of mean" ]
	scale=$(sed -n 's/^loss_scale //p' S/iter_0000004/state.conf)
	mkdir old && mv S/iter_0000004 old && echo 4 >old/latest_checkpointed_iteration.txt
	sed -i "/^loss_scale_of /d; s/^loss_scale .*/loss_scale $((scale / 64))/" \
		old/iter_0000004/state.conf
	mckpt seal old
	run -0 --separate-stderr mtrain $run --load old --metrics-file resumed
	[[ $stderr == *"old/iter_0000004: its loss scale $((scale / 64)) multiplied a sum over tokens, which is $scale of their mean; \
the run continues with $scale"* ]]
	diff <(tail -n 4 straight | sed 's/, "tokens_per_second.*//') \
		<(sed "/resumed_on_ranks/d; s/, \"tokens_per_second.*//" resumed)
	run -0 --separate-stderr mtrain $run --load old --loss-scale 1024
	[[ $stderr == *"multiplied a sum over tokens, which is $scale of their mean; --loss-scale is 1024"* ]]
	# A checkpoint of another type has no scale to continue with.
	mtrain -q --config tiny.conf --mock-data --bf16 --save B >/dev/null
	mtrain -q --config tiny.conf --mock-data --fp16 --load B --train-iters 5 \
		--override-opt_param-scheduler --metrics-file other >/dev/null
	grep -q '"loss_scale": 4294967296' other
}

@test "a checkpoint of another model, of another schedule, a damaged one" {
	mtrain -q --config tiny.conf --mock-data --save S --load S >/dev/null
	fails 1 "S/iter_0000004: the checkpoint has 'num-layers 2', the run 'num-layers 3'; --use-checkpoint-args \
takes the checkpoint's where the command line says nothing" \
		--mock-data --load S --num-layers 3
	fails 1 "S/iter_0000004: the checkpoint has no window-size, the run 'window-size 4'; --use-checkpoint-args \
takes the checkpoint's where the command line says nothing" \
		--mock-data --load S --window-size 4
	fails 1 "S/iter_0000004: the learning-rate schedule differs from the checkpoint's; \
--override-opt_param-scheduler takes the command line's, --use-checkpoint-opt_param-scheduler the checkpoint's" \
		--mock-data --load S --lr 1e-2 --train-iters 5
	sed -i 's/^schedule linear/schedule late-linear/' S/iter_0000004/state.conf
	mckpt seal S
	for option in "" --use-checkpoint-opt_param-scheduler; do
		fails 1 "S/iter_0000004: state.conf: schedule: no style 'late-linear' in this build, which has \
constant, linear, cosine, inverse-square-root, WSD" --mock-data --load S --train-iters 5 $option
	done
	mtrain -q --config tiny.conf --mock-data --load S --train-iters 5 \
		--override-opt_param-scheduler >/dev/null
	echo junk >S/iter_0000004/manifest.tsv
	run --separate-stderr mtrain -q --config tiny.conf --mock-data --load S
	[ "$status" = 1 ] && [ "${#stderr_lines[@]}" = 1 ]
	[[ $stderr == "mtrain: S/iter_0000004/manifest.tsv:1: "* ]]
}

# An older version's manifest of the checkpoint: no sums but the pieces'. Right for pieces of one
# block.
make_version_1()
{
	sed -i '1s/2$/1/; /^# [a-z]*\.[a-z]* /d' "$1/manifest.tsv"
}

@test "damaged pieces: no step is taken, the older checkpoint is named, whichever rank finds it" {
	mtrain -q --config tiny.conf --mock-data --save S --save-interval 2 >/dev/null
	p=S/iter_0000004/pieces-00000.safetensors
	dd if=/dev/zero of=$p bs=1 seek=$(($(stat -c %s $p) / 2)) count=64 conv=notrunc 2>/dev/null
	older="the newest older checkpoint that opens is S/iter_0000002: 'mckpt verify S/iter_0000002' reads all of it"
	for launch in "" "mpirun -np 2"; do
		run --separate-stderr $launch mtrain -q --config tiny.conf --mock-data --load S \
			--train-iters 5 --override-opt_param-scheduler --metrics-file m
		[ "$status" = 1 ] && [ ! -e m ]
		[ "$(grep -c '^mtrain' <<<"$stderr")" = 1 ]
		[[ $stderr == *": $p: the bytes of tensor '"*"' are damaged: wrong checksum; $older"* ]]
	done
	fails 1 "$(sed -n 's/^mtrain[^:]*: //p' <<<"$stderr")" --mock-data --load S
	# With --use-checkpoint-args the options are the first that are found damaged.
	echo '# more' >>S/iter_0000004/options.conf
	fails 1 "S/iter_0000004/options.conf: changed after it was saved: wrong checksum; mckpt seal accepts an intended \
change; $older" --mock-data --load S --use-checkpoint-args
	make_version_1 S/iter_0000004
	run --separate-stderr mtrain -q --config tiny.conf --mock-data --load S
	[ "$status" = 1 ] && [[ $stderr == "mtrain: $p: the bytes of tensor"*"wrong checksum; $older" ]]
	make_version_1 S/iter_0000002
	echo 2 >S/latest_checkpointed_iteration.txt
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --load S
	[[ $stderr == *"S/iter_0000002: of an earlier version, which holds no checksums of options.conf, state.conf and manifest.tsv"* ]]
}

@test "a changed optimizer on resume: another rule is refused, other constants are taken when asked for" {
	local run="--mock-data --load S --train-iters 5 --override-opt_param-scheduler"
	mtrain -q --config tiny.conf --mock-data --save S >/dev/null
	fails 1 "S/iter_0000004: --optimizer is sgd and was adam, whose state this rule cannot use; --finetune or \
--no-load-optim starts without it" $run --optimizer sgd
	mtrain -q --config tiny.conf $run --optimizer sgd --no-load-optim >/dev/null
	mtrain -q --config tiny.conf $run --optimizer sgd --finetune --save F >/dev/null
	[ "$(grep -E '^(optimizer|adam|sgd|weight_decay_form)' F/iter_0000005/state.conf | tr '\n' ' ')" = \
		"optimizer_steps 5 optimizer sgd sgd_momentum 0.90000000000000002 " ]
	fails 1 "S/iter_0000004: the optimizer changed since this checkpoint was saved: --adam-beta2 is 0.95 and was 0.999, \
--adam-eps is 1e-06 and was 1e-08, --no-decoupled-weight-decay is given and was not; \
--override-opt_param-scheduler takes the command line's, --no-load-optim starts without its moments" \
		--mock-data --load S --adam-beta2 0.95 --adam-eps 1e-6 --no-decoupled-weight-decay
	run -0 --separate-stderr mtrain --config tiny.conf $run --adam-beta2 0.95
	[[ $stderr == *"S/iter_0000004: the optimizer continues with moments from other options: --adam-beta2 is 0.95 and was 0.999"* ]]
	# A checkpoint that names no rule has the moments of one.
	sed -i -E '/^(optimizer |adam|weight_decay_form)/d' S/iter_0000004/state.conf
	mckpt seal S
	fails 1 "S/iter_0000004: --optimizer is sgd and was adam, whose state this rule cannot use; --finetune or \
--no-load-optim starts without it" $run --optimizer sgd
	mtrain -q --config tiny.conf $run --adam-beta2 0.95 >/dev/null
	mtrain -q --config tiny.conf --mock-data --save L >/dev/null
	sed -i 's/^optimizer adam/optimizer lion/' L/iter_0000004/state.conf
	mckpt seal L
	lacks="L/iter_0000004: state.conf: optimizer: no rule 'lion' in this build, which has "
	lacks+="adam, sgd, muon"
	fails 1 "$lacks; --finetune or --no-load-optim starts without its state" $run --load L
	mtrain -q --config tiny.conf $run --load L --no-load-optim >/dev/null
	make_version_1 L/iter_0000004
	sed -i 's/exp_avg_sq/lion_avg/' L/iter_0000004/manifest.tsv
	run -1 mtrain -q --config tiny.conf $run --load L
	[[ $output == *"mtrain: $lacks" ]]
	run -1 mckpt verify -q L
	[[ $output == *"mckpt: $lacks" ]]
}

@test "the texts of a checkpoint count as they were saved, or as they were sealed, and only where they make sense" {
	mtrain -q --config tiny.conf --mock-data --save S >/dev/null
	cp S/iter_0000004/state.conf good
	meant="changed after it was saved: wrong checksum; mckpt seal accepts an intended change"
	for edit in 's/^consumed_train_samples 16/consumed_train_samples 20/' 's/^iteration 4/iteration 0/' \
		's/^optimizer_steps 4/optimizer_steps 5/' 's/^optimizer_steps/optimiser_steps/'; do
		sed "$edit" good >S/iter_0000004/state.conf
		fails 1 "S/iter_0000004/state.conf: $meant" --mock-data --load S
		run --separate-stderr mckpt verify S
		[ "$status" = 1 ] && [ "$stderr" = "mckpt: S/iter_0000004/state.conf: $meant" ]
	done
	# A checkpoint that makes no sense cannot be sealed.
	run --separate-stderr mckpt seal S
	[ "$status" = 1 ] && [ "$stderr" = "mckpt: S/iter_0000004/state.conf:3: unknown key 'optimiser_steps'" ]
	sed 's/^consumed_train_samples .*/consumed_train_samples 9223372036854775807/' good \
		>S/iter_0000004/state.conf
	run --separate-stderr mckpt seal S
	[ "$status" = 1 ] && [[ $stderr == *": must be a whole number from 0 to 9007199254740992" ]]
	# An older manifest lets it pass: then the bounds catch it.
	make_version_1 S/iter_0000004
	run --separate-stderr timeout 60 mtrain -q --config tiny.conf --mock-data --load S
	[ "$status" = 1 ] && [[ $stderr == *": must be a whole number from 0 to 9007199254740992" ]]
	cp good S/iter_0000004/state.conf
	mtrain -q --config tiny.conf --mock-data --load S
	rm -r S
	mtrain -q --config tiny.conf --mock-data --save S >/dev/null
	sed 's/^consumed_train_samples 16/consumed_train_samples 20/' good \
		>S/iter_0000004/state.conf
	mckpt seal S
	mtrain -q --config tiny.conf --mock-data --load S --train-iters 5 \
		--override-opt_param-scheduler >log
	grep -q 'consumed samples: *24 ' log
	echo 'norm-epsilon 1e-1' >>S/iter_0000004/options.conf
	fails 1 "S/iter_0000004/options.conf: $meant" --mock-data --load S
}

@test "--use-checkpoint-args: the checkpoint's recipe counts, typed sizes too, as in Megatron-LM" {
	local same="the checkpoint has"
	local rest="--mock-data --eval-iters 0 --train-iters 5 --lr 1e-3
		--override-opt_param-scheduler"
	mtrain -q --config tiny.conf --mock-data --swiglu --ffn-hidden-size 64 \
		--group-query-attention --num-query-groups 2 --position-embedding-type rope \
		--no-position-embedding --rotary-base 5000 --normalization RMSNorm \
		--attention-dropout 0 --save S >/dev/null
	args="--use-checkpoint-args --load S --micro-batch-size 2 --global-batch-size 4 $rest"
	run -0 --separate-stderr mtrain $args --metrics-file want
	[[ $stderr != *"--use-checkpoint-args:"* ]]
	# What the recipe is made of is taken from the checkpoint, and said where something else was
	# typed.
	run -0 --separate-stderr mtrain $args --metrics-file have --squared-relu \
		--num-query-groups 4 --rotary-base 20000 --normalization LayerNorm \
		--attention-dropout 0.5 --disable-bias-linear --hidden-dropout 0.1
	sed -i '/resumed_on_ranks/d; s/, "tokens_per_second.*//' want have
	diff want have
	for line in "'num-query-groups 2', which counts; the command line has 'num-query-groups 4'" \
		"'normalization RMSNorm', which counts; the command line has 'normalization LayerNorm'" \
		"'activation swiglu', which counts; the command line has 'activation squared-relu'" \
		"'rotary-base 5000.0', which counts; the command line has 'rotary-base 20000.0'" \
		"'attention-dropout 0.0', which counts; the command line has 'attention-dropout 0.5'"; do
		[[ $stderr == *"mtrain: --use-checkpoint-args: $same $line"* ]]
	done
	[ "$(grep -c 'which counts' <<<"$stderr")" = 5 ]
	# Without it they are those of this run, and differ.
	fails 1 "S/iter_0000004: $same 'activation swiglu', the run 'activation squared-relu'; --use-checkpoint-args takes \
the checkpoint's where the command line says nothing" --mock-data --load S --squared-relu --ffn-hidden-size 64 \
		--num-query-groups 2 --position-embedding-type rope --rotary-base 5000 \
		--normalization RMSNorm --attention-dropout 0
	# Sizes are the command line's where it gives them: those of the checkpoint are right,
	# others are an error.
	mtrain -q $args --num-layers 2 --hidden-size 32 --seq-length 16 --metrics-file sizes \
		>/dev/null
	diff want <(sed '/resumed_on_ranks/d; s/, "tokens_per_second.*//' sizes)
	run -1 --separate-stderr mtrain -q $args --num-layers 3
	[[ $stderr == *"$same 'num-layers 2', the run 'num-layers 3'; "* ]]
	# The length of samples is the checkpoint's too, and not what the positions would allow.
	mtrain -q --config tiny.conf --mock-data --max-position-embeddings 32 --save L >/dev/null
	run -0 mtrain -q --use-checkpoint-args --load L $rest --dry-run
	short=$output
	run -0 mtrain -q --use-checkpoint-args --load L $rest --dry-run --seq-length 16
	[ "$output" = "$short" ]
	fails 2 "--use-checkpoint-args: needs --load or --pretrained-checkpoint" --mock-data \
		--use-checkpoint-args
}

@test "--dry-run of a million ranks plans each stage once" {
	run -0 bash -c "timeout 10 mtrain -q --config tiny.conf --dry-run --world-size 1048576 --num-layers 16 \
		--num-attention-heads 8 --tensor-model-parallel-size 8 \
		--pipeline-model-parallel-size 16 --global-batch-size 16384 |
		cut -f 5- | sort -u | wc -l"
	[ "$output" = 17 ]
	fails 2 "--world-size 1048577: must be from 1 to 1048576" --dry-run --world-size 1048577
}

@test "--dry-run prints every rank's memory and touches nothing" {
	run --separate-stderr mtrain -q --config tiny.conf --dry-run --world-size 4 \
		--tensor-model-parallel-size 2 --save S --data-path none
	[ "$status" = 0 ] && [ -z "$stderr" ]
	[ "${#lines[@]}" = 5 ]
	[ "${lines[0]}" = "$(printf 'rank\ttp\tcp\tdp\tpp\tparams_bytes\tsaved_bytes\tscratch_bytes\tworkspace_bytes\ttotal_bytes\thost_bytes')" ]
	awk 'NR > 1 && $6 + $7 + $8 + $9 != $10 { exit 1 }' <<<"$output"
	[ "$(ls)" = tiny.conf ]
	mtrain -q --config tiny.conf --dry-run --world-size 4 --context-parallel-size 2 \
		--pipeline-model-parallel-size 2 --cp-comm-type all_gather | cut -f -5 >ranks
	printf '%s\t%s\t%s\t%s\t%s\n' rank tp cp dp pp 0 0 0 0 0 1 0 1 0 0 2 0 0 0 1 3 0 1 0 1 |
		cmp - ranks
	awk 'NR > 1 && $11 != 0 { exit 1 }' <<<"$output"
	mtrain -q --config tiny.conf --dry-run | cut -f -10 >without
	mtrain -q --config tiny.conf --dry-run --ema-decay 0.9 >with
	cut -f -10 with | cmp - without
	awk 'NR > 1 && $11 < $6 / 4 { exit 1 }' with
	run env SLURM_NTASKS=4 mtrain -q --config tiny.conf --dry-run --world-size 2
	[ "$status" = 0 ]
}

@test "--dry-run opens what is here, notes what is not, and says whether it fits" {
	plan="mtrain --config tiny.conf --dry-run --world-size 2"
	run -0 --separate-stderr $plan --mock-data
	[[ "$stderr" == "mtrain: stage 0, 2 ranks: 0."*" GiB each
mtrain: no --gpu: 0."*" GiB a rank, in fp32" ]]
	run -0 --separate-stderr $plan --tokenizer-model none.model --data-path "$ids" other third --gpu h200
	[ "${stderr_lines[0]}" = "mtrain: --tokenizer-model none.model: does not exist here; the run will need it" ]
	[ "${stderr_lines[1]}" = "mtrain: --data-path: 2 datasets do not exist here, the first 'other'; the run will need them" ]
	[ "${stderr_lines[3]}" = "mtrain: the plan is in fp32: GEMMs of 67 TFLOP/s at most, and of 989 with --bf16" ]
	[[ "${stderr_lines[4]}" == "mtrain: fits 2 x h200: 1."*" of 138.30 GiB, in fp32" ]]
	run -1 --separate-stderr $plan --gpu h100 --bf16 --num-layers 300 --hidden-size 8192
	[[ "${stderr_lines[-1]}" == "mtrain: does not fit 2 x h100: "*" of 77.70 GiB, in bf16" ]]
	echo x >bad.idx && echo x >bad.bin
	fails 2 "--data-path bad: bad.idx: not a dataset index: it does not begin with MMIDIDX" --dry-run --data-path bad
	rm bad.bin
	fails 2 "--data-path bad: there is no 'bad.bin'; give the prefix without .bin or .idx" --dry-run --data-path bad
	echo x >bad.model
	run -2 $plan --tokenizer-model bad.model
}

@test "--eval-micro-batch-size: memory is planned for the larger micro batches, and taken so" {
	saved()
	{
		mtrain -q --config tiny.conf --mock-data --dry-run --eval-global-batch-size 8 "$@" |
			awk 'NR == 2 { print $7 }'
	}
	[ "$(saved)" = "$(saved --eval-micro-batch-size 1)" ]
	[ "$(saved --eval-micro-batch-size 8)" = "$(saved --micro-batch-size 8 --global-batch-size 8)" ]
	run -0 --separate-stderr mtrain --config tiny.conf --mock-data --eval-global-batch-size 8 \
		--eval-micro-batch-size 8 --eval-iters 1
	[[ $stderr == *", saved $(saved --eval-micro-batch-size 8), scratch "* ]]
}

@test "--help, --version, the manual's option list" {
	run --separate-stderr mtrain --help
	[ "$status" = 0 ] && [ -z "$stderr" ]
	[ "${lines[0]}" = "usage: mtrain [options]" ]
	run mtrain --version
	[ "$status" = 0 ]
	[[ $output == "mtrain (mikoshi) $(cat "$TOP/VERSION"), commit "*"; backends: "*cpu ]]
	sed -n '/^\.\\" begin options/,/^\.\\" end options/p' "$TOP/man/mtrain.1" |
		sed '1d;$d' >list
	mtrain --mdoc | cmp - list
	mtrain --help all | sed -n 's/^  \(-., \)\{0,1\}--\([^ ]*\).*/\2/p' >help
	sed -n 's/^\.It .*Fl Fl \([^ ]*\).*/\1/p' list | cmp - help
}

@test "a lost standard output is an error" {
	run --separate-stderr bash -c 'mtrain -q --config tiny.conf --mock-data >/dev/full'
	[ "$status" = 1 ]
	[ "$stderr" = "mtrain: cannot write standard output" ]
}

@test "logits and text" {
	mtrain -q --config tiny.conf --data-path "$ids" --data-cache-path cache --save S >/dev/null
	printf '\223NUMPY\001\000\166\000%-117s\n' \
		"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }" >t.npy
	printf '\001\000\000\000\002\000\000\000\003\000\000\000' >>t.npy
	mtrain -q --config tiny.conf --load S --tokens-file t.npy --logits-file l.npy
	[ "$(wc -c <l.npy)" = $((128 + 3 * 100 * 4)) ]
	fails 1 "t.npy: element 2: token id 3 is outside the vocabulary of 3" --tokens-file t.npy \
		--logits-file m.npy --vocab-size 3
	printf '1 2 3\n' >prompt
	run mtrain -q --config tiny.conf --load S --tokenizer-type NullTokenizer --vocab-size 100 \
		--generate 4 --prompt-file prompt
	[ "$status" = 0 ]
	[[ $output =~ ^'1 2 3'(\ [0-9]+)*$ ]]
	fails 2 "--tokens-file -: standard input reaches one rank alone: give a file, or /dev/stdin to a run of one rank" \
		--tokens-file - --logits-file m.npy
	fails 2 "--generate and --tokens-file exclude each other: give one of them" --tokens-file t.npy \
		--tokenizer-type NullTokenizer --vocab-size 100 --generate 1
	# The checkpoint alone says everything, but its schedule is not taken over.
	run -0 mtrain -q --load S --use-checkpoint-args --tokenizer-type NullTokenizer \
		--vocab-size 100 --generate 4 --prompt-file prompt
	[[ $output =~ ^'1 2 3'(\ [0-9]+)*$ ]]
	mtrain -q --load S --use-checkpoint-args --tokens-file t.npy --logits-file m.npy
	cmp l.npy m.npy
}

@test "a sequence is at most as long as the table of learned positions" {
	mtrain -q --config tiny.conf --mock-data --save S >/dev/null
	for n in 16 17; do
		printf '\223NUMPY\001\000\166\000%-117s\n' \
			"{'descr': '<i4', 'fortran_order': False, 'shape': ($n,), }" >$n.npy
		head -c $((4 * n)) /dev/zero >>$n.npy
	done
	mtrain -q --load S --use-checkpoint-args --tokens-file 16.npy --logits-file l.npy
	fails 2 "--tokens-file 17.npy: 17 tokens: must be at most the 16 that the model has learned positions for" \
		--load S --use-checkpoint-args --tokens-file 17.npy --logits-file m.npy
	[ ! -e m.npy ]
}

@test "batches whose tokens are all masked have a loss of 0, take a step and are counted" {
	for i in $(seq 60); do echo '{"text": "98 98 98 98 98 98 98 98"}'; done >eods.jsonl
	mtok -q -o eods --tokenizer-type NullTokenizer --vocab-size 100 eods.jsonl
	rm eods_text_document.json
	run --separate-stderr mtrain --config tiny.conf --data-path eods_text_document \
		--tokenizer-type NullTokenizer --vocab-size 99 --eod-mask-loss --split 8,1,1 \
		--eval-iters 1 --eval-interval 4 --data-cache-path cache --metrics-file log
	[ "$status" = 0 ]
	[ "$(grep -c '"lm_loss": 0, .*"grad_norm": 0, .*"skipped": false' log)" = 4 ]
	[[ $output == *"validation loss at iteration 4 on validation set | lm loss value: 0.000000E+00 | lm loss PPL: 1.000000E+00 | "* ]]
	[[ $output != *NAN* ]]
	[[ $stderr == *"mtrain: evaluation of valid: the loss mask leaves no token of its 1 batches: a loss of 0 is not a result"* ]]
	[[ $stderr == *"mtrain: the loss mask left no token of 4 batches: their steps were taken with gradients of 0"* ]]
}

@test "logits that are not finite are a numerical failure: no file and no text is made of them" {
	run -5 mtrain -q --config tiny.conf --mock-data --lr 1e30 --save S --save-interval 1
	printf '\223NUMPY\001\000\166\000%-117s\n' \
		"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }" >t.npy
	printf '\001\000\000\000\002\000\000\000\003\000\000\000' >>t.npy
	first="are not finite; first: rank 0, micro batch 0, forward pass of layer 0: 'c' of gemm forward"
	fails 5 "300 of 300 logits $first (288 of 288)" --lr 1e30 --load S --tokens-file t.npy \
		--logits-file l.npy
	[ ! -e l.npy ]
	run --separate-stderr mpirun -np 2 mtrain -q --config tiny.conf \
		--pipeline-model-parallel-size 2 --lr 1e30 --load S --tokens-file t.npy \
		--logits-file l.npy
	[ "$status" = 5 ] && [ ! -e l.npy ]
	[[ $stderr == *"300 of 300 logits $first (288 of 288)"* ]]
	printf '1 2 3\n' >prompt
	fails 5 "the logits of the next token $first (288 of 288)" --lr 1e30 --load S \
		--tokenizer-type NullTokenizer --generate 4 --prompt-file prompt
}

@test "a dataset that is cut short while it is used: one line with its name" {
	cp "$ids.bin" cut.bin
	cp "$ids.idx" cut.idx
	mtrain --config tiny.conf --data-path cut --split 100,0,0 --train-iters 1000000 >log 2>&1 &
	for _ in $(seq 200); do
		grep -q ' iteration ' log && break
		sleep 0.05
	done
	: >cut.bin
	ended=0
	wait $! || ended=$?
	[ "$ended" = 1 ]
	run -0 grep '^mtrain' log
	[ "${lines[-1]}" = "mtrain: cut.bin: cannot be read any more: the file was cut short while it was in use, or its disk failed" ]
	# The step that was under way may still print its line.
	[ "$(grep -v ' iteration ' log | tail -n 1)" = "${lines[-1]}" ]
}

@test "options and lists of corpora may come through pipes" {
	mtrain -q --config <(cat tiny.conf) --data-args-path <(echo "$ids") --split 100,0,0 \
		--train-iters 1
}

@test "the manual's examples run" {
	awk '/^\.Sh EXAMPLES/ { on = 1 } /^\.Sh DIAGNOSTICS/ { on = 0 }
		on && /^\.Ed/ { code = 0; print "" }
		code { gsub(/\\e/, "\\"); print }
		on && /^\.Bd/ { code = 1 }' "$TOP/man/mtrain.1" >examples
	[ "$(grep -c mtrain examples)" = 6 ]
	cp "$TOP/tests/porting/scripts/slurm.sh" train.sh
	for i in $(seq 60); do
		echo "{\"text\": \"the quick brown fox number $i jumps over the lazy dog number $((i * 7))\"}"
	done >text.jsonl
	mtok train -q -o spm.model --vocab-size 310 --byte-fallback text.jsonl
	mtok -q -o corpus --tokenizer-model spm.model --append-eod text.jsonl
	cat >model.conf <<-END
		num-layers 2
		hidden-size 32
		num-attention-heads 4
		seq-length 16
		vocab-size 310
		swiglu
		normalization RMSNorm
		position-embedding-type rope
		disable-bias-linear
		untie-embeddings-and-output-weights
		attention-dropout 0
		hidden-dropout 0
		split 8,1,1
		eval-iters 1
	END
	echo tensor-model-parallel-size 2 >plan.conf
	echo "the quick brown" >prompt.txt
	awk -v RS= '{ print >("example" NR) }' examples
	run --separate-stderr sh example1
	[ "$status" = 0 ] && [ "${#lines[@]}" = 65 ]
	run --separate-stderr sh example2
	[ "$status" = 0 ]
	mckpt verify ckpt
	run --separate-stderr sh example2
	[ "$status" = 0 ]
	[[ $stderr == *"nothing to train"* ]]
	run -0 sh example3
	mexport -q --tokenizer-model spm.model ckpt hf
	[ -e hf/tokenizer.model ] || cp spm.model hf/tokenizer.model
	run --separate-stderr sh example4
	[ "$status" = 0 ]
	[[ $output == "the quick brown"* ]]
	printf '{"prompt": "%s"}\n' the quick >prompts.jsonl
	run -0 sh example5
	[ "$(grep -c '"finish"' texts.jsonl)" = 2 ]
}

@test "a reader that leaves ends the log of a training run, not the run; what has nothing to save ends quietly" {
	run -0 bash -c "mtrain --config tiny.conf --mock-data --train-iters 200 --save s 2>words | head -n 1"
	[[ $output == *"iteration        1/     200"* ]]
	[ "$(grep -c "standard output is closed: the log ends here, and the run continues" words)" = 1 ]
	[ "$(cat s/latest_checkpointed_iteration.txt)" = 200 ]
	mtrain -q --config tiny.conf --mock-data --train-iters 200 2>words | true
	[ "${PIPESTATUS[0]}" = 0 ] && [ ! -s words ]
	mtrain --config tiny.conf --dry-run --world-size 4096 --global-batch-size 8192 2>words |
		head -n 1
	[ "${PIPESTATUS[0]}" = 141 ] && [ ! -s words ]
}

@test "--save-hf-interval and --save-hook: processes of their own, which change nothing of the run" {
	options="--config tiny.conf --mock-data --train-iters 4 --eval-iters 0"
	mtrain -q $options --metrics-file plain.jsonl --save P --save-interval 2 >/dev/null
	mpirun -np 1 mtrain $options --metrics-file m.jsonl --save S --save-interval 2 \
		--save-hf-interval 2 \
		--save-hook 'echo printed; mpirun -np 1 echo "$1" >>ranks; exit 5' >/dev/null 2>log
	steps='s/.*\("lm_loss": [^,]*\),.*\("grad_norm": [^,]*\),.*/\1 \2/p'
	[ "$(sed -n "$steps" plain.jsonl)" = "$(sed -n "$steps" m.jsonl)" ]
	cmp {P,S}/iter_0000004/pieces-00000.safetensors
	for _ in $(seq 600); do
		[ "$(wc -l <ranks 2>/dev/null)" = 2 ] && [ -e S/hf/iter_0000004 ] && break
		sleep 0.1
	done
	# The second may start while the first is at work.
	[ "$(sort ranks)" = "$(printf 'S/iter_000000%s\n' 2 4)" ]
	mexport -q --check S S/hf/iter_0000004 | grep -q ': ok: '
	mexport -q --check S/iter_0000002 S/hf/iter_0000002 | grep -q ': ok: '
	grep -q '^mtrain: --save-h[a-z-]*: iteration 4: ' log
	run ! grep -q printed log
	grep -qx printed S/hooks.log
	run -2 mtrain $options --save S --save-interval 2 --save-hf-interval 3
	[[ $output == *"--save-hf-interval 3: must be a multiple of --save-interval 2 (try 4)" ]]
}

@test "--metrics-command gets the lines of --metrics-file, is started again, and holds up no step" {
	mtrain -q --config tiny.conf --mock-data --train-iters 20 --metrics-file m.jsonl --eval-iters 1 \
		--metrics-command 'cat >got' >/dev/null
	cmp m.jsonl got
	[ "$(grep -c . got)" -ge 20 ]
	mtrain --config tiny.conf --mock-data --train-iters 3000 --log-interval 3000 \
		--metrics-command 'head -n 1 >>firsts' >/dev/null 2>log
	[ "$(wc -l <firsts)" -le 4 ]
	run -0 grep -c 'mtrain: --metrics-command has ended: it is started again' log
	[ "$output" -ge 1 ]
	run -0 grep -Eq '^mtrain: --metrics-command did not get [0-9]+ lines, which it was too slow to read' log
}
