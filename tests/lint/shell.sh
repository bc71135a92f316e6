#!/bin/sh
# shell.sh - shellcheck accepts every shell script
set -u
cd "${TOP:-.}" || exit 1
find install.sh .ci/run bin lib examples man tests \( -name '*.sh' -o -path .ci/run \) -type f |
	sort | xargs shellcheck -x -P SCRIPTDIR -P . -f gcc
