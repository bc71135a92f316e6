#!/bin/sh
# An option: a run saves and stops after a step whose loss is low enough.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
helps '--exit-loss N .*'
proves --exit-loss 1
loss=$(metric lm_loss one.jsonl | awk 'NR == 2 { printf "%.9f", $1 + 1e-8 }')
for ranks in 1 4; do
	rm -rf stopped
	[ $ranks = 1 ] && layout= || layout=$grid
	ends 3 $ranks $steps $layout --save stopped --exit-loss "$loss"
	grep -q 'stopped after iteration [1-4] by --exit-loss' log || fail "not stopped"
done
ends 2 1 $steps --exit-loss much
grep -q -e '--exit-loss' log || fail "a word is taken for a number"
