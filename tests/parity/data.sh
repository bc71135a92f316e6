#!/bin/sh
# data.sh - blends under several layouts, continuing with another list, documents that do not see
# each other, maps on hosts without a common directory
# shellcheck source=tests/parity/common disable=SC2046,SC2086
. "$TOP/tests/parity/common"

corpus a 1 200 3 38
corpus b 2 300 3 38
corpus c 3 150 3 38
blend="--data-path 0.5 a_text_document 0.3 b_text_document 0.2 c_text_document
	--tokenizer-type NullTokenizer --split 90,10,0 --data-cache-path cache --eod-mask-loss
	--lr 1e-3 --log-interval 4"
common="$blend --train-iters 12 --log-loss-by-corpus"

# corpora FILE: what a metrics file says of the corpora, without their losses
corpora()
{
	grep '"corpus"' "$1" | sed 's/, "lm_loss".*//; s/}$//'
}

# steps FILE: its lines of steps
steps()
{
	grep '"grad_norm"' "$1"
}

# Every layout trains on the same samples of the same corpora: losses as in layouts.sh, of each
# corpus too.
train 1 $common --metrics-file one.jsonl
steps one.jsonl >one.steps
grep '"corpus"' one.jsonl >one.corpora
[ "$(wc -l <one.corpora)" = 9 ] || fail "$(wc -l <one.corpora) lines of corpora instead of 9"
# The mean over all tokens is the mean of the corpora's losses weighted by their tokens.
awk -F'[:,}]' '
	/"corpus"/ && $2 == 12 { l += $14 * $16; n += $16 }
	/"skipped"/ && $2 > 8 { s += $6; m++ }
	END { d = l / n - s / m; exit !(n > 0 && m == 4 && d < 0.02 && d > -0.02) }' one.jsonl ||
	fail "the losses of the corpora do not add up"
for layout in "2 2 1" "2 1 2" "4 1 1 --use-distributed-optimizer --micro-batch-size 2" \
	"8 2 2 $(context 2)"; do
	set -- $layout
	ranks=$1 grid=$(layout "$2" "$3")
	shift 3
	train "$ranks" $common $grid "$@" --metrics-file many.jsonl
	steps many.jsonl >many.steps
	grep '"corpus"' many.jsonl >many.corpora
	corpora one.jsonl >want
	corpora many.jsonl >got
	cmp want got || fail "$ranks ranks: other samples were consumed"
	loss=$(gap lm_loss many.steps one.steps) each=$(gap lm_loss many.corpora one.corpora)
	within 1e-5 "$loss" "$each" ||
		fail "$ranks ranks, $grid: the loss differs by $loss, that of a corpus by $each"
	echo "blend under $ranks ranks, $grid $*: loss within $loss, of each corpus $each"
done

# Asking for the losses of the corpora changes nothing else.
train 1 $blend --train-iters 12 --metrics-file plain.jsonl
steps plain.jsonl | sed 's/, "tokens_per_second".*//' >plain
results one.steps >with
same_steps "--log-loss-by-corpus" plain with
corpora plain.jsonl >got
cmp want got || fail "the counts differ without --log-loss-by-corpus"

# Another list from iteration 6 on: refused, then accepted by option; continuing with it needs no
# option, under any layout.
ends 3 1 $common --save save --exit-interval 6
cp -r save late
other="--data-path 0.2 a_text_document 0.8 c_text_document --tokenizer-type NullTokenizer
	--split 90,10,0 --data-cache-path cache --eod-mask-loss --lr 1e-3 --log-interval 4
	--train-iters 12"
ends 1 1 $other --load save --save save
changed='corpus 2 of the list, c_text_document, is not what b_text_document was; --data-'
grep -q "the data changed since this .* $changed" log ||
	fail "the change is not named"
train 1 $other --load save --save straight --data-change exclude-seen --metrics-file straight.jsonl
grep -q 'a_text_document continues after [0-9]* samples of its order' log ||
	fail "the log does not say where a corpus continues"
ends 3 2 $other --load save --save save --data-change exclude-seen --exit-interval 8 \
	--tensor-model-parallel-size 2 --metrics-file two.jsonl
train 4 $other --load save --save save --micro-batch-size 2 --metrics-file two.jsonl
steps straight.jsonl >straight.steps
steps two.jsonl >two.steps
loss=$(gap lm_loss two.steps straight.steps)
within 1e-5 "$loss" ||
	fail "exclude-seen, stopped and resumed under other layouts: the loss differs by $loss"
grep '"corpus"' straight.jsonl | tail -n 2 >want
grep '"corpus"' two.jsonl | tail -n 2 >got
cmp want got || fail "exclude-seen: other samples were consumed after another stop"
echo "exclude-seen: straight and resumed twice agree within $loss"
train 1 $other --load late --save late --data-change restart --metrics-file restart.jsonl
[ "$(steps restart.jsonl | wc -l)" = 6 ] || fail "restart: not the steps that are left"

# Documents of 8 tokens: two in a row that do not see each other, with positions from 0 each, equal
# two rows. One step is an epoch of 40 documents, in double precision; the 41st is dropped by both.
corpus even 5 41 7 1
apart="--data-path even_text_document --tokenizer-type NullTokenizer --split 1,0,0 --eod-mask-loss
	--reset-position-ids --fp64 --train-iters 1 --lr 1e-3 --data-cache-path cache"
for model in "$llama" "$gpt2 --hidden-dropout 0 --attention-dropout 0"; do
	train 1 $apart --seq-length 8 --max-position-embeddings 16 --global-batch-size 40 \
		--metrics-file rows.jsonl
	for layout in "1 1 1" "2 2 1" "4 2 2" "2 1 2 --recompute-granularity full"; do
		set -- $layout
		ranks=$1 grid=$(layout "$2" "$3")
		shift 3
		train "$ranks" $apart $grid "$@" --reset-attention-mask --global-batch-size 20 \
			--metrics-file packed.jsonl
		loss=$(gap lm_loss packed.jsonl rows.jsonl)
		norm=$(gap grad_norm packed.jsonl rows.jsonl)
		within 1e-12 "$loss" || fail "documents in one row: the loss differs by $loss"
		within 1e-10 "$norm" ||
			fail "documents in one row: the gradient norm differs by $norm"
		echo "two documents in a row and a row each, $ranks ranks, $grid $*: \
loss within $loss, gradient norm $norm"
	done
	train 1 $apart --global-batch-size 20 --metrics-file packed.jsonl
	loss=$(gap lm_loss packed.jsonl rows.jsonl)
	! within 1e-6 "$loss" || fail "documents that see each other make no difference"
done
model=$llama

# Rank 1 has a cache directory that rank 0's files do not appear in: it builds its own maps, and the
# run is the same.
if unshare -rm true 2>/dev/null; then
	rm -rf apart
	mkdir apart
	cat >each <<-'END'
		#!/bin/sh
		# mtrain, with a file system of its own over ./apart on every rank but 0
		[ "$OMPI_COMM_WORLD_RANK" = 0 ] ||
			exec unshare -rm sh -c 'mount -t tmpfs none apart &&
				mtrain "$@" && ls apart >seen' mtrain "$@"
		exec mtrain "$@"
	END
	chmod +x each
	mpirun -np 2 ./each $model $common --data-cache-path "$PWD/apart" \
		--metrics-file many.jsonl >log 2>&1 ||
		fail "hosts apart"
	ls apart >here
	cmp here seen || fail "the second host has other maps"
	grep -q npy here || fail "no maps were built"
	corpora one.jsonl >want
	corpora many.jsonl >got
	cmp want got || fail "hosts apart: other samples"
	echo "file systems apart: each has its maps"
else
	echo "file systems apart: skipped, no mount namespaces here"
fi
