#!/bin/sh
# oracle.sh - five steps of models drawn by SEED, under layouts and update rules drawn too, against
# the oracle of tests/oracle, in double precision
#
# Six of them; with ALL=1 300, on as many as four ranks. COUNT and RANKS say otherwise.
# shellcheck source=tests/parity/common disable=SC2154
. "$TOP/tests/parity/common"
: "${SEED:=1}" "${ALL:=}"
[ -z "$ALL" ] || : "${COUNT:=300}" "${RANKS:=4}"
: "${COUNT:=6}" "${RANKS:=2}"
"$B/tests/oracle/oracle" --seed "$SEED" --count "$COUNT" --ranks "$RANKS"
