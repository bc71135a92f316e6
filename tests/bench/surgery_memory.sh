#!/bin/sh
# surgery_memory.sh - peak resident memory of the verbs of mckpt that read whole models; a table
#
# A checkpoint of one layer of an 8B's widths with masters and both moments, and ROWS (default
# 44,000, which make 6.9 GB) of the vocabulary; then a model of 1 GB, of which 2 and 16 are averaged
# and merged. No verb may take more than 512 MB and the largest tensor, nor one of 16 models 32 MB
# more than of 2. Exit status 1 when one does. B is the build directory; WHERE (default: the
# directory it is started in) takes 20 GB. ONLY=VERB measures that one.
# shellcheck disable=SC2086
set -eu
: "${B:=build}" "${WHERE:=.}" "${ONLY:=}" "${ROWS:=44000}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
dir=$(mktemp -d -p "$(cd "$WHERE" && pwd)")
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# peak COMMAND...: its KB
peak()
{
	rm -rf out
	"$B/tests/bench/usage" "$@" 2>err | cut -f 3
	[ ! -s err ] || { cat err >&2; return 1; }
}

# row BOUND NAME COMMAND...: a line of the table
row()
{
	bound=$1 name=$2
	shift 2
	[ -z "$ONLY" ] || [ "$ONLY" = "$2" ] || return 0
	kb=$(peak "$@")
	printf '%s\t%s\t%s\n' "$name" $((kb >> 10)) "$bound"
	[ $((kb >> 10)) -le "$bound" ] || touch over
}

"$B/tests/bench/big_model" big 1 "$ROWS" 1 states
"$B/tests/bench/vocabulary" old $((ROWS * 10 / 11)) 1
"$B/tests/bench/vocabulary" new $((ROWS - 1)) 7919
"$B/tests/unit/adapter" 4096 >made
# the tables, or the matrices of the MLP, in FP32
largest=$(((ROWS > 14336 ? ROWS : 14336) * 4096 * 4))
most=$((512 * 1000000 + largest))
most=$((most >> 20))
tokenizers="--old-vocab-file old.json --old-merge-file old.txt --vocab-file new.json"
tokenizers="$tokenizers --merge-file new.txt"
mckpt stack -q --no-optim --layers 0,0 big two
printf 'verb\tpeak MiB\tat most\n'
set -f
while read -r words; do
	row "$most" "$words" mckpt $words -q
done <<-END
	average big big out
	merge --method linear big big out
	merge --method slerp --t 0.3 big big out
	merge --method ties --density 0.5 --base big ./big ././big out
	merge --method dare_ties --density 0.5 --base big ./big ././big out
	stack --layers 0,0 --zero-new big out
	drop-layers --layers 1: two out
	set --rotary-base 1e6 big out
	set --tie mean big out
	resize-vocab $tokenizers big out
	apply-lora big adapter out
	upcycle --num-experts 2 big out
	strip big out
	extract --layers 0 big out
	extract --tensors * big out
	cast --dtype bf16 big out
	reshard --tensor-model-parallel-size 2 big out
	export big out
	export --to torch big out
	verify big
	diff big big
END
rm -rf two
set +f
row "$most" "mexport big out" mexport -q big out
mexport -q big hf
row "$most" "mexport --check big hf" mexport -q --check big hf
row "$most" "import hf out" mckpt import -q hf out
rm -rf hf big out
"$B/tests/bench/big_model" hf 1 32000 1
mckpt import -q hf m
rm -r hf
many=
for i in $(seq 16); do
	many="$many $(printf '%0*d' "$i" 0 | sed 's|0|./|g')m"
done
first=$(echo $many | cut -d ' ' -f 1,2)
for words in average "merge --method linear" "merge --method ties --density 0.5 --base m"; do
	two=$(($(peak mckpt $words -q $first out) >> 10))
	row $((two + 32)) "$words of 16 of 1 GB; of 2: $two" mckpt $words -q $many out
done
[ ! -e over ]
