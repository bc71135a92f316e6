#!/bin/sh
# same.sh OLD NEW - whether two builds train alike: tiny models under many configurations, 4 steps
#
# OLD and NEW are build directories with mtrain, mckpt and one with mtok. For each row of same.tsv
# both builds must print the same digits, log lines and metrics alike but for times, and save the
# same tensors; and NEW resumes what OLD saved after 2 steps, with the same digits and tensors. Rows
# that are named logits also compute logits from what OLD saved. Prints a line per row and "N same,
# N different"; exit status 1 when one differs or none was run.
#
# ONLY=PATTERN takes the rows whose name contains it, N=COUNT with SEED a sample of so many rows,
# and JOBS is how many run at once, by default as many as there are cores. KEEP=DIR keeps what the
# rows that differ have left.
# shellcheck disable=SC2086
set -u

if [ "$1" != --row ]; then
	[ $# = 2 ] || { echo "usage: same.sh OLD NEW" >&2 && exit 2; }
	OLD=$(cd "$1" && pwd) && NEW=$(cd "$2" && pwd) || exit 2
	TOP=$(cd "$(dirname "$0")/../.." && pwd) B=$NEW
	export OLD NEW TOP B PATH="$NEW:$OLD:$PATH"
	# shellcheck source=tests/extend/environment
	. "$TOP/tests/extend/environment"
	out=$(mktemp) rows=$(mktemp) || exit 1
	trap 'rm -f "$out" "$rows"' EXIT
	awk -F '\t' -v only="${ONLY:-}" -v seed="${SEED:-1}" -v n="${N:-0}" '
		BEGIN { srand(seed) }
		!/^#/ && (!only || index($1, only)) { row[++rows] = $1 }
		END {
			for (i = 1; i <= rows; i++)
				if (!n || rand() * (rows - i + 1) < n - taken) {
					print row[i]
					taken++
				}
		}' "$TOP/tests/extend/same.tsv" >"$rows"
	xargs -r -P "${JOBS:-$(nproc)}" -n 1 sh "$TOP/tests/extend/same.sh" --row <"$rows" |
		tee "$out"
	same=$(grep -c ': same$' "$out")
	different=$(($(wc -l <"$rows") - same))
	echo "$same same, $different different"
	[ "$different" = 0 ] && [ "$same" -gt 0 ]
	exit
fi

name=$2
# shellcheck source=tests/parity/common
. "$TOP/tests/parity/common"

# differs WHAT: prints the row's line and what the tools wrote last, on one line, and ends it
differs()
{
	echo "$name: DIFFERENT: $*"
	if [ -n "${KEEP:-}" ]; then
		mkdir -p "$KEEP/$name"
		cp -R . "$KEEP/$name"
	fi
	exit 0
}

# step BUILD RUN OPTION...: the row's model by one build; log lines and metrics, without times, are
# in RUN.digits
step()
{
	build=$1 run=$2
	shift 2
	launch=
	[ "$ranks" = 1 ] || launch="mpirun -np $ranks"
	$launch "$build/mtrain" $model $data --lr 3e-3 --log-interval 1 \
		--log-params-norm $length $options "$@" --save "$run" --save-interval 2 \
		--metrics-file "$run.jsonl" >log 2>&1 ||
		differs "$run ends with status $?: $(grep '^mtrain' log | tail -n 1)"
	{
		grep -o -e 'validation loss.*' log || true
		sed -n -e 's/^.*\] \(iteration .*\)$/\1/p' log |
			sed -e 's/elapsed time[^|]*|//' -e 's/throughput per GPU[^|]*|//' \
				-e 's/tokens per second[^|]*|//' -e 's/exposed [^|]*|//g'
		results "$run.jsonl"
	} >"$run.digits"
	[ "$(metric lm_loss "$run.jsonl" | wc -l)" -ge 2 ] || differs "$run trains no step"
}

# first_difference A B: the first fields of two files' lines that are not the same
first_difference()
{
	sed 's/[|,]/\n/g' "$1" >fields.a
	sed 's/[|,]/\n/g' "$2" >fields.b
	diff fields.a fields.b | grep '^[<>]' | sed -n -e '1p' -e '/^>/{p;q;}' | tr '\n' ' '
}

# alike WHAT A B: digits from those of iteration 3 on where WHAT is "resumed"
alike()
{
	for run in "$2" "$3"; do
		cp "$run.digits" "$run.compared"
		[ "$1" != resumed ] ||
			grep -e '^iteration  *[34]/' -e '^{"iteration": [34],' "$run.digits" \
				>"$run.compared"
		[ -s "$run.compared" ] || differs "$1: no step"
	done
	cmp -s "$2.compared" "$3.compared" ||
		differs "$1: $(first_difference "$2.compared" "$3.compared")"
	"$NEW/mckpt" diff "$2" "$3" >diff.tsv 2>&1 ||
		differs "$1: $(grep -v -w -e equal diff.tsv | tail -n 1 | cut -c 1-200)"
	grep -q -w equal diff.tsv || differs "$1: no tensor was compared"
}

# logits BUILD FILE: of 16 tokens, by what OLD saved
logits()
{
	launch=
	[ "$ranks" = 1 ] || launch="mpirun -np $ranks"
	$launch "$1/mtrain" $model $options --load old --tokens-file tokens.npy \
		--logits-file "$2" >log 2>&1 || differs "logits: $(grep '^mtrain' log | tail -n 1)"
}

line=$(awk -F '\t' -v name="$name" '$1 == name' "$TOP/tests/extend/same.tsv")
ranks=$(echo "$line" | cut -f 2)
experts="--num-experts 4 --moe-ffn-hidden-size 24 --moe-router-topk 2"
data=--mock-data
case $(echo "$line" | cut -f 3) in
llama) model=$llama ;;
gpt2) model=$gpt2 ;;
experts) model="$llama $experts" ;;
fp8) model="$llama --hidden-size 64 --ffn-hidden-size 128 --num-query-groups 4" ;;
fp8-experts) model="$llama --hidden-size 128 --num-layers 2 --num-query-groups 4 --num-experts 4
	--seq-length 32 --moe-ffn-hidden-size 64" ;;
text) text_dataset && model=$llama && data="$text" ;;
*) differs "same.tsv has no such model: $line" ;;
esac
options=$(echo "$line" | cut -f 4) length="--train-iters 4"
case $options in *--train-samples*) length= ;; esac

step "$OLD" old
step "$NEW" new
alike trained old new
mkdir from
cp -R old/iter_0000002 from
echo 2 >from/latest_checkpointed_iteration.txt
step "$NEW" on --load from
alike resumed old on
case $name in
*logits*)
	{
		printf '\223NUMPY\001\000\166\000%-117s\n' \
			"{'descr': '<i4', 'fortran_order': False, 'shape': (16,), }"
		awk 'BEGIN { for (i = 1; i <= 16; i++) printf "%c%c%c%c", i * 7, 0, 0, 0 }'
	} >tokens.npy
	logits "$OLD" old.npy
	logits "$NEW" new.npy
	cmp -s old.npy new.npy || differs "logits" ;;
esac
echo "$name: same"
