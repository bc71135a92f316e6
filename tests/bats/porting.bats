# what users of other programs, and newcomers, are told: every fault of a line in one answer

bats_require_minimum_version 1.5.0
load common

# notes: what the last dry run said, without its two lines on the memory
notes()
{
	grep -v -e '^mtrain: stage 0, ' -e '^mtrain: no --gpu: ' <<<"$stderr" || true
}

setup()
{
	cd "$BATS_TEST_TMPDIR" || exit
	cp "$TOP/tests/tiny.conf" .
}

@test "seven faults of seven kinds are seven lines, in the order of the command line" {
	run -2 --separate-stderr mtrain --mock-data --num-layers 2 --num-attention-heads 4 --seq-length 16 \
		--vocab-size 100 --train-iters 1 --lodd x --lr nought --save --micro-batch-size 0 \
		--mtp-use-repeated-layer --recompute-granularity selective --recompute-num-layers 2
	[ -z "$output" ]
	[ "$stderr" = "mtrain: 7 options cannot be used as given:
mtrain: unknown option '--lodd'; the nearest is '--load'
mtrain: --lr nought: not a number
mtrain: --save: needs a value: DIR
mtrain: --micro-batch-size 0: must be from 1 to 1e+15
mtrain: --mtp-use-repeated-layer: layers never share weights
mtrain: --recompute-num-layers: is for --recompute-granularity full
mtrain: --hidden-size: is needed (or --model CONFIG)" ]
}

@test "mistakes of newcomers" {
	line="--dry-run --world-size 8 --mock-data --num-layers 4 --hidden-size 64 --num-attention-heads 4
		--seq-length 32 --vocab-size 100 --global-batch-size 8"
	grep '^\$ ' "$TOP/tests/porting/newcomers.txt" >lines
	[ "$(wc -l <lines)" = 10 ]
	while read -r _ options; do
		printf '$ %s\n' "$options"
		mtrain $line $options 2>&1 >plan || true
		[ ! -s plan ]
	done <lines >answers
	diff "$TOP/tests/porting/newcomers.txt" answers
}

@test "a value of another program is ours, in one spelling of the dump; a note names it" {
	run="--config tiny.conf --mock-data --dry-run"
	run -0 --separate-stderr mtrain $run --optimizer AdamW --normalization rmsnorm \
		--position-embedding-type rotary --moe-token-dispatcher-type flex --train-iters 1_0
	[ "$(notes)" = "mtrain: --optimizer AdamW: is adam here
mtrain: --position-embedding-type rotary: is rope here
mtrain: --moe-token-dispatcher-type flex: is alltoall here
mtrain: read by nothing in this run: --moe-token-dispatcher-type (needs --num-experts)" ]
	run -2 --separate-stderr mtrain $run --train-iters 1__0
	[ "$stderr" = "mtrain: --train-iters 1__0: not an integer" ]
	run -0 mtrain $run --train-samples 3_000 --rampup-batch-size "2 2 2_000"
}

@test "--help with options tells of these alone, of other programs too" {
	run -0 mtrain --help --muon-momentum --use-mpi --softmax-type --num-key-value-heads 2 --mtp-use-repeated-layer
	[[ $output != *"usage: "* ]]
	output=$(echo "$output" | tr '\n' ' ' | tr -s ' ')
	[[ $output == *"--muon-momentum N "*"needs --optimizer muon."* ]]
	[[ $output == *"--use-mpi: without effect here: communication is MPI between CPUs and NCCL between GPUs"* ]]
	[[ $output == *"--mtp-use-repeated-layer: refused: layers never share weights"* ]]
	[[ $output == *"--num-key-value-heads: is --group-query-attention --num-query-groups \$ here"* ]]
}

@test "what is read by nothing is a note; -q and a default are silent, a file counts too" {
	run="--config tiny.conf --mock-data --dry-run"
	run -0 --separate-stderr mtrain $run --hysteresis 3 --muon-momentum 0.9
	[ "$(notes)" = "mtrain: read by nothing in this run: --hysteresis (needs --fp16)" ]
	echo 'hysteresis 3' >>tiny.conf
	run -0 --separate-stderr mtrain $run
	[ "$(notes)" = "mtrain: read by nothing in this run: --hysteresis (needs --fp16)" ]
	run -0 --separate-stderr mtrain -q $run
	[ -z "$stderr" ]
	run -0 --separate-stderr mtrain $run --fp16
	[ -z "$(notes)" ]
}

@test "the value of another option, which may come later" {
	run="--config tiny.conf --mock-data --dry-run"
	run -0 mtrain $run --embedding-init-method-std 0.01 --init-method-std 1e-2
	run -2 --separate-stderr mtrain $run --embedding-init-method-std 0.01
	[ "$stderr" = "mtrain: --embedding-init-method-std 0.01: embeddings are drawn with --init-method-std; accepted: the value of --init-method-std" ]
}
