#!/bin/sh
# seeds.sh - SEEDS (FIRST:LAST) disturbed runs end as they should; the first few are simulated twice
set -eu
"$B/sim" --seeds "${TWICE:-1:10}" --twice
"$B/sim" --seeds "${SEEDS:-11:150}"
