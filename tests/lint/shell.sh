#!/bin/sh
# shell.sh - shellcheck accepts every shell script, but for those that are read like other people's
set -u
cd "${TOP:-.}" || exit 1
find install.sh .ci/run bin lib examples man packaging recipes tests \( -name '*.sh' \
	-o -path .ci/run -o -path 'tests/bats/jobs/*' ! -name '*.txt' \) -type f |
	grep -v '^tests/porting/scripts/' | sort | xargs shellcheck -x -P SCRIPTDIR -P . -f gcc
