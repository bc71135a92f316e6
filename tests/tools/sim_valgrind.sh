#!/bin/sh
# sim_valgrind.sh FIRST:LAST - simulates these seeds twice under valgrind: no error, and equal logs
#
# What the simulator sets by starting itself again is set here, as valgrind does not follow that.
set -eu
: "${B:=build}" "${JOBS:=2}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 TZ=UTC GLIBC_TUNABLES='' setarch -R \
	valgrind -q --log-file="$log" "$B/sim" --seeds "$1" --twice --jobs "$JOBS"
[ ! -s "$log" ] || { cat "$log" && exit 1; }
