#!/bin/sh
# foreign.sh - options of other programs without effect, and settings that nothing reads, change no
# bit of a run, nor do all of them together; with ALONE=1 nor does each by itself
#
# That Megatron-LM's own numbers do not depend on an option is what places.tsv of tests/porting has
# a place in its source for.
. "${TOP:-.}/tests/parity/common"

model="--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 4 --vocab-size 100
	--seq-length 16 --global-batch-size 4 --lr 1e-3 --train-iters 3 --num-threads 1
	--eval-iters 0 --log-interval 1"

# losses FILE OPTIONS...: loss and norm of the gradients of each step, to the last digit
losses()
{
	out=$1
	shift
	rm -f metrics.jsonl
	train 1 --metrics-file metrics.jsonl "$@"
	sed -n 's/.*"lm_loss": \([^,]*\),.*"grad_norm": \([^,]*\),.*/\1 \2/p' metrics.jsonl >"$out"
	[ "$(wc -l <"$out")" = 3 ] || fail "not three steps: $(cat metrics.jsonl)"
}

# same FILE OPTIONS...: they change nothing
same()
{
	losses other "$@"
	cmp -s plain other || fail "the losses are others with $*"
}

# every WHAT: the options of a list, all in one run
every()
{
	# shellcheck disable=SC2046 # words
	same $(cat "$1")
}

foreign=$B/tests/unit/foreign
# Not what names the kind of layers that this model does not have.
"$foreign" notes | grep -v -e '^--experimental-attention-variant' -e '^--linear-attention-type' \
	>without
# Not two that exclude each other, nor what this script reads.
"$foreign" unread | grep '^--' >settings
grep -v -e '^--use-checkpoint-opt_param-scheduler' -e '^--no-async-save' \
	-e '^--log-loss-by-corpus' -e '^--log-memory-to-tensorboard' \
	-e '^--prompts' settings >most
if [ "$(wc -l <without)" -lt 500 ] || [ "$(wc -l <most)" -lt 60 ]; then
	fail "few options"
fi
while read -r name value; do
	grep -q "^${name#--}	." "$TOP/tests/porting/places.tsv" ||
		fail "$name $value: no place in a source"
done <without
losses plain
every without
every most
grep 'read by nothing in this run: ' log >note
while read -r name value; do
	grep -q -e "${name}[, ]" note || fail "$name $value: no note"
done <most
[ -n "${ALONE:-}" ] || exit 0
cat without settings | while read -r option; do
	# shellcheck disable=SC2086 # words
	same $option
done
