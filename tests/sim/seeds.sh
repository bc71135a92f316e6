#!/bin/sh
# seeds.sh - 300 disturbed runs end as they should; the first few are simulated twice
#
# SEEDS (FIRST:LAST) are of all layouts, and each other tool, whose runs are short, has EACH of
# them.
set -eu
"$B/sim" --seeds "${TWICE:-1:10}" --twice
"$B/sim" --seeds "${SEEDS:-11:130}"
for tool in cast convert exports encode join encoders exporters joiners; do
	"$B/sim" --layout "$tool" --seeds "${EACH:-141:161}"
done
