#!/bin/sh
# example.sh - the example's tokenizer, tokens, training and checkpoint by programs of another
# machine (RUN) against those of this machine
#
# Text, model and options are those that examples/pretrain.sh writes for STEPS steps, by default 20,
# which are taken on two data ranks. SHAPE has options that make the model small enough for an
# emulator, which adds hundreds of times slower; SHAPE= takes it as it is. B has the programs of the
# other machine and HERE those of this one. Tokenizer and tokens must be the same in all bytes. A
# loss may differ by 1e-6 of itself: the two OpenBLAS add in different orders. This machine reads
# the checkpoint of the other.
set -eu
: "${STEPS:=20}" "${HERE:=$TOP/build}"
: "${SHAPE=--hidden-size 64 --seq-length 32}"
HERE=$(cd "$HERE" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
there=$PATH here=$HERE:$PATH
cd "$tmp"

# fail TEXT: prints the end of `log` and what failed
fail()
{
	tail -n 20 log
	echo "failed: $1"
	exit 1
}

# The example takes the programs of the tree that it lies in. Its training ends at once, as if it
# had been stopped, and leaves the files that come before it.
mkdir -p tree/build
ln -s "$TOP/examples" tree/examples
ln -s "$HERE/mtok" "$HERE/mshard" "$HERE/mplan" tree/build
printf '#!/bin/sh\nexit 3\n' >tree/build/mtrain
chmod +x tree/build/mtrain
rc=0
STEPS=$STEPS TEXT=corpus sh tree/examples/pretrain.sh "$tmp/data" >log 2>&1 || rc=$?
[ "$rc" = 3 ] || fail "the example here ends with status $rc"
cd data

PATH=$there
mtok train --input text.jsonl --vocab-size 4000 --model-type bpe -o there.model >log 2>&1 ||
	fail 'mtok train there'
mtok encode --input text.jsonl --output-prefix there --tokenizer-model spm.model --append-eod \
	--workers 2 >log 2>&1 || fail 'mtok encode there'
cmp spm.model there.model
for part in bin idx; do
	cmp "corpus_text_document.$part" "there_text_document.$part"
done
echo 'tokenizer and tokens: the same bytes'

for side in here there; do
	eval "PATH=\$$side"
	# shellcheck disable=SC2086 # a list of words
	mpirun -np 2 mtrain --config model.conf --config run.conf $SHAPE --save "$PWD/$side" \
		--load "$PWD/$side" --metrics-file "$side.jsonl" --eval-iters 0 >log 2>&1 ||
		fail "mtrain $side"
	sed -n 's/.*"lm_loss": \([^,}]*\).*/\1/p' "$side.jsonl" >"$side.losses"
done
paste here.losses there.losses | awk -v steps="$STEPS" '
{
	difference = ($1 > $2 ? $1 - $2 : $2 - $1) / $1
	largest = difference > largest ? difference : largest
	equal += $1 == $2
}
END {
	printf "losses: %d steps, %d equal, largest difference %.2g\n", NR, equal, largest
	exit NR != steps || !(largest <= 1e-6)
}' || { paste here.losses there.losses && exit 1; }

PATH=$here
mckpt verify "there/iter_$(printf %07d "$STEPS")" >log 2>&1 || fail 'mckpt verify here'
mexport there hf >log 2>&1 || fail 'mexport here'
echo 'checkpoint: read and exported here'
