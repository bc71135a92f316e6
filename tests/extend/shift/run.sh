#!/bin/sh
# A collective, to the next rank: alone, and called by sgd of this copy, which shifts each gradient
# over all tensor ranks, so that it is its own again.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
for ranks in 1 4; do
	mpirun -np $ranks "$B/tests/unit/shift" >log 2>&1 || fail "$ranks ranks: $(tail -n 1 log)"
done
proves --optimizer sgd
