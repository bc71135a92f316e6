#!/bin/sh
# mutants.sh - each mistake of tests/sim/mutants is about an expression that the sources have
cd "${TOP:-.}" || exit 1
exec sh tests/sim/mutants/make.sh --places
