#!/bin/sh
# surgery.sh - the verbs of mckpt that make models of others, against cp of the same bytes; appends
# to results.tsv
#
# A model of an 8B's widths with 32,000 rows of the vocabulary, 4 layers (2.3 GB of BF16), sixteen
# of 1 layer (1 GB each) and one with 128,256 rows (2.5 GB). Every command reads files that are not
# in the file cache and ends with a sync; it takes turns with cp --sparse=never of as many bytes as
# it writes, and cat of what else it reads, ROUNDS (default 3) times. The figures are the least
# milliseconds of both, and the peak resident memory. B is the build directory; WHERE (default: the
# directory it is started in) takes 20 GB. ONLY=VERB measures that one. Run it on a quiet machine.
# shellcheck disable=SC2016,SC2046,SC2086
set -eu
: "${B:=build}" "${WHERE:=.}" "${ROUNDS:=3}" "${ONLY:=}"
B=$(cd "$B" && pwd)
PATH=$B:$PATH
# shellcheck source=tests/bench/record
. tests/bench/record
dir=$(mktemp -d -p "$(cd "$WHERE" && pwd)")
trap 'rm -rf "$dir"' EXIT
cd "$dir"

# took COMMAND...: its milliseconds with the final sync, those of processors, and its peak KB
took()
{
	sync
	find . -type f -exec dd if={} iflag=nocache count=0 status=none ';'
	rm -rf out
	"$B/tests/bench/usage" sh -c '"$@" && sync' - "$@"
}

# peer COPY CAT...: copies one checkpoint, and reads others
peer()
{
	copied=$1
	shift
	took sh -c 'cp -r --sparse=never "$0" out && cat /dev/null "$@"' "$copied" \
		$(for ck; do echo "$ck"/iter_*/*.safetensors; done)
}

# against NAME "COPY CAT..." COMMAND...: turns of the command, which writes `out`, and of the peer
against()
{
	name=$1 bytes=$2
	shift 2
	wanted "${name%% *}" || return 0
	turn=0
	while [ $((turn += 1)) -le "$ROUNDS" ]; do
		echo "own $(took "$@")"
		echo "cp $(peer $bytes)"
	done >turns
	sort -k 1,1 -k 2,2n turns | awk -v OFS='\t' -v name="$name" '
		!($1 in least) { least[$1] = $2 }
		!($1 in cpu) || $3 < cpu[$1] { cpu[$1] = $3 }
		$1 == "own" && $4 > peak { peak = $4 }
		END {
			printf "mckpt %s, cold, with sync, ms (%.0f %% of the rate), " \
				"CPU ms %d against %d, peak %d MiB; peer: ", name,
				100 * least["cp"] / least["own"], cpu["own"], cpu["cp"],
				peak / 1024
			print "cp --sparse=never of what is written, cat of what else is read",
				least["own"], least["cp"]
		}' | record_rows
}

# wanted VERB...: whether one of them is to be measured
wanted()
{
	case " $* " in *" ${ONLY:-$1} "*) ;; *) return 1 ;; esac
}

# model NAME LAYERS ROWS SEED VERB...: makes a model if one of the verbs that read it is to be
# measured
model()
{
	(shift 4 && wanted "$@") || return 0
	"$B/tests/bench/big_model" hf "$2" "$3" "$4"
	mckpt import -q hf "$1"
	rm -rf hf
}

model deep 4 32000 0 stack set
against "stack of 2.3 GB" deep mckpt stack -q --layers 3,2,1,0 deep out
against "set of 2.3 GB" deep mckpt set -q --rotary-base 1e6 deep out
rm -rf deep
model words 1 128256 0 resize-vocab
"$B/tests/bench/vocabulary" old 120000 1
"$B/tests/bench/vocabulary" new 127999 7919
against "resize-vocab of 2.5 GB, 120,000 moved rows and 7,999 new" words \
	mckpt resize-vocab -q --old-vocab-file old.json --old-merge-file old.txt \
	--vocab-file new.json --merge-file new.txt words out
rm -rf words
many=
for i in $(seq 16); do
	verbs=average
	[ "$i" -gt 3 ] || verbs="average merge kill"
	model "m$i" 1 32000 "$i" $verbs
	many="$many m$i"
done
against "average of 2 of 1 GB" "m1 m2" mckpt average -q m1 m2 out
against "average of 16 of 1 GB" "$many" mckpt average -q $many out
against "merge --method ties of 2 of 1 GB and their base" "m1 m2 m3" mckpt merge -q --method ties \
	--density 0.5 --base m1 m2 m3 out
# Killed at any moment: the checkpoint is intact, or nothing opens.
for i in $(seq 10); do
	wanted kill || break
	rm -rf out
	timeout -s KILL "$(($(od -An -N2 -tu2 /dev/urandom) % 6)).5" \
		mckpt average -q m1 m2 out >/dev/null 2>&1 || :
	if [ -e out/latest_checkpointed_iteration.txt ]; then
		mckpt verify out
	else
		mckpt info out >/dev/null 2>&1 && { echo "a killed average opens"; exit 1; }
		echo "killed: nothing opens"
	fi
done
