#!/bin/sh
# comm.sh - the communication contract on 2, 3 and 4 ranks, and on two levels of 8, with ALL=1 of
# 24; ranks that fail end the others
set -eu
for ranks in 2 3 4; do
	mpirun -np "$ranks" "$B/tests/prop/comm"
done
mpirun -np 8 "$B/tests/prop/hosts"
[ -z "${ALL:-}" ] || mpirun -np 24 "$B/tests/prop/hosts"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for how in abort lost; do
	rc=0
	mpirun -np 2 "$B/tests/prop/comm" "$how" >"$out" 2>&1 || rc=$?
	[ "$rc" = 4 ] || { echo "$how: exit status $rc instead of 4"; cat "$out"; exit 1; }
done
grep '^comm\[1\]: lost a peer or a link in a send: ' "$out"
