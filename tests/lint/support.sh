#!/bin/sh
# support.sh - docs/SUPPORT.md is what the tests' lists of options say
cd "${TOP:-.}" || exit 1
exec sh tests/support.sh --check
