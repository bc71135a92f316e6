#!/bin/sh
# blocks.sh - the option blocks of two public launch scripts: unchanged in a dry run, and with small
# sizes in real runs; one of them with experts, too, upcycled from the model of the other run
set -u
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh

for i in $(seq 200); do
	printf '{"content": "def f%d(x): return x * %d + %d", ' "$i" "$i" $((i * 37 % 100))
	printf '"text": "the quick brown fox number %d jumps"}\n' "$i"
done >F
expect 0 mtok train -q -o T --vocab-size 300 --byte-fallback F

# A byte-level BPE of the 256 bytes, two merges and the end of text.
perl -CS -e '
	my ($next, $i) = (0x100, 0);
	sub printed { ($_ >= 33 && $_ <= 126) || ($_ >= 161 && $_ <= 172) || $_ >= 174 }
	my @c = map { chr(printed() ? $_ : $next++) } 0 .. 255;
	my @merge = (["r", "e"], ["t", "u"]);
	sub quote { my $s = shift; $s =~ s/(["\\])/\\$1/g; return "\"$s\"" }
	open my $v, ">:utf8", "V";
	my @tokens = (@c, (map { join "", @$_ } @merge), "<|endoftext|>");
	print $v "{", join(", ", map { quote($_) . ": " . $i++ } @tokens), "}\n";
	open my $m, ">:utf8", "M";
	print $m "#version: 0.2\n", map { "@$_\n" } @merge;'

# --- Tanuki-8B ------------------------------------------------------------------------------------

# tanuki COMMAND...: the command with the block's options, then those in $small
fp8="--fp8-format hybrid --fp8-amax-compute-algo max --fp8-amax-history-len 1024"
tanuki()
{
	# shellcheck disable=SC2086
	"$@" \
	--tensor-model-parallel-size 1 --pipeline-model-parallel-size 2 --context-parallel-size 1 \
	--sequence-parallel --use-distributed-optimizer \
	--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 \
	--group-query-attention --num-query-groups 8 \
	--seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 \
	--global-batch-size 1536 --train-iters 12500 --tokenizer-type SentencePieceTokenizer \
	--tokenizer-model T --load D --finetune --save S --data-path P --split 998,1,1 \
	--distributed-backend nccl --init-method-std 0.008 --lr 1.0E-4 --min-lr 1.0E-6 \
	--lr-decay-style cosine --lr-decay-iters 12500 --weight-decay 0.1 --clip-grad 0.8 \
	--lr-warmup-iters 1000 --optimizer adam --adam-beta1 0.9 --adam-beta2 0.95 \
	--adam-eps 1e-05 --log-interval 1 --save-interval 500 --eval-interval 10000 \
	--eval-iters 10 --bf16 --use-checkpoint-args --untie-embeddings-and-output-weights \
	--no-position-embedding --position-embedding-type rope --rope-theta 500000.0 \
	--disable-bias-linear --use-mcore-models --normalization RMSNorm --norm-epsilon 1e-5 \
	--no-masked-softmax-fusion --attention-dropout 0.0 --hidden-dropout 0.0 \
	--swiglu --use-flash-attn --attention-softmax-in-fp32 --recompute-activations \
	--recompute-granularity "selective" --transformer-impl "transformer_engine" \
	$fp8 --use-z-loss \
	--log-throughput --wandb-name N --wandb-project P --wandb-entity E \
	${small:-}
}

small=
tanuki expect 0 mtrain --dry-run --world-size 64
[ "$(grep -c '^[0-9]' out)" = 64 ] || fail "not 64 ranks"
said "--use-mcore-models, --transformer-impl (there is one model code), "
said "--wandb-name N: is --wandb-exp-name N here"

# With experts (8x8B), in bf16: which of the layouts fit 80 GB.
experts="--num-experts 8 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss
	--moe-aux-loss-coeff 1e-2 --moe-grouped-gemm --moe-token-dispatcher-type alltoall"

# most STAGES RANKS: the bytes of the rank with the most, in GB
most()
{
	small="$experts --pipeline-model-parallel-size $1" fp8=
	tanuki expect 0 mtrain --dry-run --world-size "$2"
	awk -F '\t' '
		$1 == "rank" { while ($++total != "total_bytes"); }
		/^[0-9]/ && $total > most { most = $total }
		END { print int(most / 1e9) }' out
}

for case in 4:64:over 8:64:under 16:64:under 16:16:under 8:8:over; do
	ranks=${case#*:}
	got=$(most "${case%%:*}" "${ranks%:*}")
	[ "$got" -gt 80 ] && side=over || side=under
	[ "$side" = "${case##*:}" ] || fail "8x8B, stages:ranks $case 80 GB: $got GB"
done

# Without the data there is nothing to train; then the model that --load D holds is the one that is
# trained on.
small="--global-batch-size 8 --train-iters 4 --num-threads 1"
tanuki expect 2 mpirun -np 2 mtrain
said "mtrain: --load D: holds no checkpoint, and a fresh start needs --load to equal --save"
expect 0 mtok -q -o P --tokenizer-model T --append-eod F
expect 0 mtrain --num-layers 2 --hidden-size 64 --ffn-hidden-size 96 --num-attention-heads 4 \
	--group-query-attention --num-query-groups 2 \
	--seq-length 32 --bf16 --tokenizer-model T --data-path P_text_document --split 1,0,0 \
	--save D --train-iters 2 --lr 1e-3 --global-batch-size 8 \
	--untie-embeddings-and-output-weights --position-embedding-type rope --rope-theta 500000 \
	--disable-bias-linear --normalization RMSNorm --swiglu --attention-dropout 0 \
	--hidden-dropout 0 --num-threads 1
small="$small --seq-length 32 --num-layers 2 --hidden-size 64 --ffn-hidden-size 96
	--num-attention-heads 4 --num-query-groups 2 --data-path P_text_document --split 8,1,1
	--lr-warmup-iters 1 --lr-decay-iters 4 --eval-iters 1"
tanuki expect 0 mpirun -np 2 mtrain
said "mtrain[0]: weights from D at iteration 0"
said "iteration        4/       4 | consumed samples:           32"
cp out log.dense
[ "$(tracker S)" = 4 ] || fail "saved iteration $(tracker S)"
grep -qx bf16 S/iter_0000004/options.conf || fail "the checkpoint does not say bf16"
grep -q '^fp8.amax_history	F32	24,1024	' S/iter_0000004/manifest.tsv ||
	fail "the checkpoint has no history of 1024 steps"

# --- Tanuki-8x8B ----------------------------------------------------------------------------------

# The model of 8 copies has the loss of the original, but for rounding to 8 bits.
expect 0 mckpt upcycle --num-experts 8 D E
# first_loss LOG: of iteration 1
first_loss()
{
	sed -n 's/.* iteration        1\/.*lm loss: \([^ ]*\).*/\1/p' "$1"
}
dense=$(first_loss log.dense)
small="$small $experts --load E --save X" fp8=
tanuki expect 0 mpirun -np 2 mtrain
said "iteration        4/       4 | consumed samples:           32"
grep -q 'load_balancing_loss: 1\.' out || fail "the load of experts is not balanced at the start"
first_loss out | awk -v dense="$dense" '{ d = $1 / dense - 1; exit !(d < 1e-3 && d > -1e-3) }' ||
	fail "the first loss is not $dense"
expect 0 mexport -q X hf
grep -q '"model_type": "mixtral"' hf/config.json || fail "not exported as Mixtral"

# --- CodeParrot-small -----------------------------------------------------------------------------

# The data-preparation line.
expect 0 mtok --input F --output-prefix codeparrot --vocab V --dataset-impl mmap \
	--tokenizer-type GPT2BPETokenizer --merge-file M \
	--json-keys content --workers 32 --chunk-size 25 --append-eod
grep -q -e '--chunk-size' out || fail "no note on --chunk-size"
expect 0 mshard verify codeparrot_content_document

# codeparrot COMMAND...: the same for the other block
codeparrot()
{
	# shellcheck disable=SC2086
	"$@" \
	--num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 \
	--max-position-embeddings 1024 --micro-batch-size 12 \
	--global-batch-size 192 --lr 0.0005 --train-iters 150000 --lr-decay-iters 150000 \
	--lr-decay-style cosine --lr-warmup-iters 2000 \
	--weight-decay .1 --adam-beta2 .999 --fp16 --log-interval 10 --save-interval 2000 \
	--eval-interval 200 --eval-iters 10 --tensor-model-parallel-size 1 \
	--pipeline-model-parallel-size 1 --vocab-file V --merge-file M --save C --load \
	C --data-path P \
	--tensorboard-dir events \
	${small:-}
}

small=
codeparrot expect 0 mtrain --dry-run --world-size 8
[ "$(grep -c '^[0-9]' out)" = 8 ] || fail "not 8 ranks"
expect 1 test -e C -o -e events
small="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32
	--max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 4 --train-iters 40
	--lr-decay-iters 40 --lr-warmup-iters 4 --eval-iters 1 --num-threads 1 --split 8,1,1
	--data-path codeparrot_content_document"
codeparrot expect 3 mpirun -np 2 mtrain --exit-interval 30
said "mtrain: --load C: holds no checkpoint yet; starting from the beginning"
said "stopped after iteration 30 by --exit-interval; the same command continues the run"
codeparrot expect 0 mpirun -np 2 mtrain
said "resuming C at iteration 30"
said "iteration       40/      40 | consumed samples:          160"
[ -n "$(ls events)" ] || fail "no event file"
