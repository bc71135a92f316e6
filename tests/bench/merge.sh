#!/bin/sh
# merge.sh - mckpt merge beside mergekit 0.1.4 on the same models; appends to results.tsv
#
# Two Hugging Face directories of LAYERS (default 8) layers of an 8B's widths in BF16 and ROWS
# (default 128,256) of the vocabulary, 6 GB each, linear and by ties with the first as the base, in
# turns (METHODS: default both); files are not in the file cache, and a sync ends it. PYTHON has
# mergekit; without it nothing is measured. B is the build directory, WHERE (default: the directory
# it is started in) takes 20 GB with that many layers.
# shellcheck disable=SC2086
set -eu
: "${B:=build}" "${WHERE:=.}" "${LAYERS:=8}" "${ROWS:=128256}" "${PYTHON:=python3}"
: "${METHODS:=linear ties}"
"$PYTHON" -c 'import mergekit' 2>/dev/null || { echo "skipped: no mergekit"; exit 0; }
B=$(cd "$B" && pwd)
# shellcheck source=tests/bench/record
. tests/bench/record
dir=$(mktemp -d -p "$(cd "$WHERE" && pwd)")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
for i in 1 2; do
	"$B/tests/bench/big_model" "m$i" "$LAYERS" "$ROWS" "$i"
done
size=$(du -m m1 | cut -f 1)

# took COMMAND...: milliseconds, those of processors, and the peak in KB
took()
{
	rm -rf out
	sync
	find . -type f -exec dd if={} iflag=nocache count=0 status=none ';'
	"$B/tests/bench/usage" sh -c '"$@" 2>err && sync || { cat err >&2; exit 1; }' - "$@"
}

for method in $METHODS; do
	options="m1:0.5 m2:0.5"
	[ "$method" = linear ] || options="--base m1 --density 0.5 ./m1:0.5 m2:0.5"
	own=$(took "$B/mckpt" merge -q --method "$method" $options out)
	peer=$(took "$PYTHON" "$top/tests/bench/merge_peer.py" "$method" m1 ./m1 m2 out)
	echo "$own $peer" | awk -v OFS='\t' -v method="$method" -v size="$size" '{
		printf "mckpt merge --method %s of two of %.1f GB, cold, with sync, ms, ", method,
			size / 1000
		printf "CPU ms %d against %d, peak %d MiB against %d; peer: mergekit 0.1.4", $2, $5,
			$3 / 1024, $6 / 1024
		print "", $1, $4
	}' | record_rows
done
