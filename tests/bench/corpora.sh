#!/bin/sh
# corpora.sh - index maps of a blend of CORPORA small corpora, 2,000 by default, beside
# Megatron-LM; appends to results.tsv
#
# Corpora of 100 documents and 60,000 tokens, three splits, 1 million samples: of 2,000, 24,000
# files of Megatron-LM's and a file of keys of ours. PEER=DIR holds Megatron-LM's source with
# helpers_cpp built (make -C DIR/megatron/core/datasets), PYTHON has what it imports; without PEER
# its column is -. Maps are built cold, ours and the peer's in turn, and each figure is the median
# of RUNS. Ours is mshard from launch to exit, with its syncs; the peer's is its builder alone,
# without Python's start, and nothing is synced. The corpora are in the page cache for both. The
# arrays of both must be equal in every byte. Ours are opened again for the warm figure, whose peer
# is the bar. Columns as in bench.sh. Megatron-LM keeps eleven files of each corpus open: with a
# limit of 20,000 open files at most CORPORA=1700 works.
#
# A run has a new directory and nothing is deleted before the end: ext4 avoids inodes that were
# freed within the last minutes, which makes each new file many times slower for either.
set -eu
: "${B:=build}" "${PEER:=}" "${PYTHON:=python3}" "${RUNS:=3}" "${CORPORA:=2000}"
B=$(cd "$B" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# shellcheck source=tests/bench/record
. tests/bench/record
cd "$tmp"
split=80,10,10
sizes=1000000,1000,1000

# ours DIR: elapsed and CPU milliseconds of mshard with its maps in DIR
ours()
{
	sync
	"$B/tests/bench/usage" "$B/mshard" index -q --data-args-path list --split "$split" \
		--seq-length 2048 --num-samples "$sizes" --data-cache-path "$1" | cut -f 1,2
}

# peer DIR THREADS: the same of Megatron-LM's builder, or - without one
peer()
{
	[ -n "$PEER" ] || { echo - && return; }
	sync
	PYTHONPATH=$PEER "$PYTHON" "$top/tests/bench/corpora_peer.py" list "$1" "$split" 2048 \
		"$sizes" "$2" 2>peer.err || { tail -n 3 peer.err >&2 && return 1; }
}

# median FIELD FILE
median()
{
	cut -f "$1" "$2" | sort -n | sed -n "$(((RUNS + 1) / 2))p"
}

# sums DIR: a checksum and a size an array
sums()
{
	(cd "$1" && find . -name '*.npy' -exec cksum {} + | sort -k 3)
}

"$B/tests/bench/sparse" corpus 100 60000 "$CORPORA"
awk -v n="$CORPORA" 'BEGIN { srand(3); for (i = 0; i < n; i++)
	print 0.1 + 2.9 * rand(), "corpus_" i }' >list
for run in $(seq "$RUNS"); do
	ours "ours.$run" >>ours.cold
	for threads in 1 "$cores"; do
		peer "peer.$threads.$run" "$threads" >>"peer.$threads.cold"
	done
	ours "ours.$run" >>ours.warm
done
if [ -n "$PEER" ]; then
	sums ours.1 >ours.sums
	sums peer.1.1 >peer.sums
	cmp ours.sums peer.sums
fi
row="mshard index of $(echo "$CORPORA" | sed 's/...$/,&/') corpora of 100 documents, 3 splits"
for what in "1 elapsed ms" "2 CPU ms"; do
	field=${what%% *}
	for threads in 1 "$cores"; do
		record "$row, cold maps, ${what#* }; peer: Megatron-LM's builder, \
threads: $threads, ${what#* }" \
			"$(median "$field" ours.cold)" "$(median "$field" "peer.$threads.cold")"
	done
done
record "$row, warm maps, elapsed ms; peer: the bar, ms" "$(median 1 ours.warm)" 5000
