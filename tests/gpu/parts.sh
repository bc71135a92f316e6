#!/bin/sh
# parts.sh - tests/gpu/parts and tests/gpu/messages on every power of two of the GPUs of this host
#
# B is the build directory. With fewer than two GPUs, or without mpirun, it says so and succeeds.
set -eu
: "${B:=build}"
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
if [ -n "${CUDA_VISIBLE_DEVICES:-}" ]; then
	gpus=$(echo "$CUDA_VISIBLE_DEVICES" | tr ',' '\n' | grep -c .)
else
	gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') || gpus=0
fi
if [ "$gpus" -lt 2 ] || ! command -v mpirun >/dev/null; then
	echo "skipped: two ranks need two GPUs and mpirun"
	exit 0
fi
for ranks in 2 4 8; do
	[ "$ranks" -le "$gpus" ] || break
	mpirun -np "$ranks" "$B/tests/gpu/parts"
	mpirun -np "$ranks" "$B/tests/gpu/messages"
done
