#!/bin/sh
# ckpt.sh - mckpt and mexport on a model of an 8B's widths, against cp of the same bytes; appends
# to results.tsv
#
# LAYERS (default 8: 5.6 GB) of Llama 3 8B in BF16, and their fp32 masters. Every command reads
# files that are not in the file cache and ends with a sync; it takes turns with cp --sparse=never,
# ROUNDS (default 3) times.
# The figures are MB of input per second at the median, of both, and the range of the command's;
# the least processor time of both, seconds a GB; and the command's peak resident memory. B is the
# build directory; WHERE (default: the directory it is started in) takes six copies of the model.
# ONLY=WORD leaves out commands that do not begin so; OF=hf, ck or masters, those of other sources.
# OF=fp8 and OF=mxfp4 measure the decoders on GB (default 10) of random bytes, which become 2 and
# 3.6 times as many: the rate is of what is read, and how much is written is said beside it.
# Run it on a quiet machine.
set -eu
: "${B:=build}" "${WHERE:=.}" "${LAYERS:=8}" "${ROUNDS:=3}" "${ONLY:=}" "${OF:=}" "${GB:=10}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
# shellcheck source=tests/bench/record
. tests/bench/record
dir=$(mktemp -d -p "$(cd "$WHERE" && pwd)")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
what="$LAYERS layers of 8B"

# cold DIR: takes its files out of the file cache
cold()
{
	sync
	find "$1" -type f -exec dd if={} iflag=nocache count=0 status=none ';'
}

# took SRC COMMAND...: its milliseconds with the final sync, those of processors, and its peak KB
took()
{
	cold "$1"
	shift
	rm -rf out
	"$B/tests/bench/usage" sh -c '"$@" && sync' - "$@"
}

# against_cp SRC NAME COMMAND...: ROUNDS turns of the command, which writes `out`, and of cp
against_cp()
{
	src=$1 name=$2 written=
	shift 2
	case $name:$src in "$ONLY"*:"$OF"*) ;; *) return 0 ;; esac
	mb=$(du -sb --apparent-size "$src" | awk '{ print $1 / 1e6 }')
	turn=0
	while [ $((turn += 1)) -le "$ROUNDS" ]; do
		echo "own $(took "$src" "$@")"
		[ ! -e out ] || written=", MB written for each read $(du -sb --apparent-size out |
			awk -v mb="$mb" '{ printf "%.2f", $1 / 1e6 / mb }')"
		echo "cp $(took "$src" cp -r --sparse=never "$src" out)"
	done >turns
	figures=$(awk -v mb="$mb" '
		{ print $1, 1000 * mb / $2, $3 / mb, $1 == "own" ? int($4 / 1024) : 0 }' turns |
		sort -k 1,1 -k 2,2g | awk '
		{ n[$1]++; v[$1, n[$1]] = $2; if ($4 > peak) peak = $4 }
		!($1 in cpu) || $3 < cpu[$1] { cpu[$1] = $3 }
		END {
			m = int((n["own"] + 1) / 2)
			printf "%.0f\t%.0f\t%.0f to %.0f\t%d\t%.2f against %.2f\n", v["own", m],
				v["cp", m], v["own", 1], v["own", n["own"]], peak, cpu["own"],
				cpu["cp"]
		}')
	record "$name of $(basename "$src"), $what, $(printf %.1f "$(echo "$mb" |
		awk '{ print $1 / 1000 }')") GB, cold, with sync, MB/s (range $(echo "$figures" |
		cut -f 3)), CPU s/GB $(echo "$figures" | cut -f 5), peak $(echo "$figures" |
		cut -f 4) MiB$written; peer: cp --sparse=never" \
		"$(echo "$figures" | cut -f 1)" "$(echo "$figures" | cut -f 2)"
}

case $OF in fp8 | mxfp4)
	what="random bytes"
	python3 "$top/tests/bench/quantised_model.py" "$OF" "$GB" "$OF"
	against_cp "$OF" "mckpt import" mckpt import -q "$OF" out
	exit
	;;
esac
"$B/tests/bench/big_model" hf "$LAYERS"
against_cp hf "mckpt import" mckpt import hf out
against_cp hf "mckpt verify" mckpt verify hf
mckpt import hf ck
against_cp ck "mckpt reshard" mckpt reshard ck out
against_cp ck "mckpt reshard to 4 tensor ranks" mckpt reshard ck out --tensor-model-parallel-size 4
against_cp ck "mckpt cast" mckpt cast -q --dtype fp16 ck out
against_cp ck "mckpt export" mckpt export -q ck out
against_cp ck "mckpt verify" mckpt verify ck
against_cp ck "mexport" mexport -q ck out
rm -rf ck
mckpt import -q --dtype fp32 hf masters
against_cp masters "mckpt reshard" mckpt reshard masters out
against_cp masters "mckpt cast" mckpt cast -q --dtype bf16 masters out
against_cp masters "mckpt export" mckpt export -q masters out
against_cp masters "mckpt verify" mckpt verify masters
against_cp masters "mexport" mexport -q masters out
