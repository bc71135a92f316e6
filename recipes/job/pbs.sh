#!/bin/bash
#PBS -N pretrain
#PBS -P GROUP
#PBS -q rt_HF
#PBS -l select=4:mpiprocs=8
#PBS -l walltime=12:00:00
#PBS -k oe -j oe
# PBS Pro, as on ABCI 3.0. On Miyabi: -q regular-g -W group_list=GROUP -l select=4:mpiprocs=1, and
# ppr:1. PBS has no way to leave out a host by its name. Submit: qsub pbs.sh
SCRIPT=pbs.sh CONFIG=run.conf SAVE=save
LIMIT=720 MARGIN=15 # minutes: those of walltime, and what a start, a step and a save may take
JOB=$PBS_JOBID
cd "$PBS_O_WORKDIR" || exit 1
# shellcheck source=/dev/null
. /etc/profile.d/modules.sh
module load cuda/12.6 hpcx/2.20
ulimit -n "$(ulimit -Hn)"
LAUNCH="mpirun -np $((8 * $(sort -u "$PBS_NODEFILE" | wc -l))) -map-by ppr:8:node -bind-to none"
LAUNCH="$LAUNCH -hostfile $PBS_NODEFILE"
again() { qsub "$SCRIPT"; }

# --- the same for every scheduler -----------------------------------------------------------------
iteration() { cat "$SAVE/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0; }
say() { echo "$(date +%FT%T) job $JOB, iteration $(iteration): $*"; }
stop() # STATUS WHY: no job follows until SAVE/hold is removed
{
	echo "$2" >"$SAVE/hold" && rm -f "$SAVE/attempts"
	say "stopped: $2; to continue: rm $SAVE/hold, and submit $SCRIPT again"
	exit "$1"
}

mkdir -p "$SAVE" && exec >>"$SAVE/log" 2>&1 || exit 1
[ ! -e "$SAVE/done" ] || exit 0
[ ! -e "$SAVE/hold" ] || { say "not started: $SAVE/hold: $(cat "$SAVE/hold")"; exit 0; }
before=$(iteration) at='' tries=0 ended='' bad='' none="3 jobs in a row made no progress"
[ ! -e "$SAVE/attempts" ] || read -r at tries <"$SAVE/attempts"
[ "$at" = "$before" ] || tries=0
[ "$tries" -lt 3 ] || stop 1 "$none"
tries=$((tries + 1)) first=$(wc -l <"$SAVE/log")
echo "$before $tries" >"$SAVE/attempts"
trap 'kill -USR1 "$!"' USR1
trap 'ended=1; kill -USR1 "$!"' TERM USR2 # qdel and scancel: save, and no job follows
mtrain --launch "$LAUNCH" --config "$CONFIG" --save "$SAVE" --load "$SAVE" \
	--exit-duration-in-mins $((LIMIT - MARGIN)) &
run=$!
while wait "$run"; status=$?; kill -0 "$run" 2>/dev/null; do :; done

case $status in
0) : >"$SAVE/done" && say "done" && exit 0 ;;
1 | 2 | 5) stop "$status" "mtrain ended with status $status, and its last line says why" ;;
3) [ -z "$ended" ] || { say "saved and cancelled"; exit 0; } ;;
*) bad=$(tail -n +"$first" "$SAVE/log" |
	sed -n 's/.*; rank [0-9]* (\([^)]*\)).* has not come: .*/\1/p' | tail -1) ;;
esac
[ "$(iteration)" != "$before" ] || [ "$tries" -lt 3 ] || stop 1 "$none; last status $status"
say "status $status: another job follows${bad:+, without host $bad}"
again "$bad" || stop 1 "the next job was refused"
