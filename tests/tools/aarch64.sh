#!/bin/sh
# aarch64.sh [DIR] - a cross build for aarch64, its tests under qemu-user, and its example against
# this machine's
#
# DIR has or gets the libraries (sysroot.sh), by default build-aarch64-root. KINDS are the kinds of
# tests, by default those of `make test-unit test-parsers` and cross. Status 2 where the compilers
# or qemu-user are absent.
set -eu
: "${KINDS:=unit prop op grad fuzz parsers cross}" "${MAKE:=make}"
for program in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64; do
	command -v "$program" >/dev/null || {
		echo "aarch64.sh: there is no $program: install gcc-aarch64-linux-gnu," \
			'g++-aarch64-linux-gnu and qemu-user' >&2
		exit 2
	}
done
root=${1:-build-aarch64-root}
sh tests/tools/sysroot.sh "$root"
root=$(cd "$root" && pwd)
"$MAKE" CROSS_COMPILE= SYSROOT= all
"$MAKE" CROSS_COMPILE=aarch64-linux-gnu- SYSROOT="$root" tests
# shellcheck disable=SC2086 # a list of words
B=build-aarch64 HERE=build RUN="qemu-aarch64 -L $root" sh tests/run.sh $KINDS
