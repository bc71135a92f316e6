#!/bin/sh
# sim.sh - simulated seeds an hour beside injections an hour into real processes, on one core each
set -eu
: "${B:=build}" "${SEEDS:=1:200}" "${N:=20}"
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 \
	OMPI_MCA_btl_vader_single_copy_mechanism=none
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
PATH=$(cd "$B" && pwd):$PATH
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$B/sim" --seeds "$SEEDS" >"$log" || { cat "$log" && exit 1; }
tail -n 1 "$log"
begin=$(date +%s)
"$B/tests/faults/faults" --seed 1 --count "$N" >"$log" || { cat "$log" && exit 1; }
echo "$N injections: $((N * 3600 / ($(date +%s) - begin + 1))) injections an hour"
