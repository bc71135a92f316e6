#!/bin/sh
# An operation of both backends: its cases, and called by sgd of this copy, whose gradients it
# squares.
# shellcheck source=tests/extend/toy disable=SC2046,SC2086
. "$TOP/tests/extend/toy"
"$B/tests/op/scale_columns" >log 2>&1 || fail "cases: $(tail -n 1 log)"
grid="$(layout 2 1) $(zero 1)" other=$(layout 1 2)
proves --optimizer sgd
grep -q '^scale_columns' profile.tsv ||
	fail "--profile has no scale_columns: $(cut -f 1 profile.tsv)"
