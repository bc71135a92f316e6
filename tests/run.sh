#!/bin/sh
# run.sh KIND... - run the tests of each kind; one line a test, the output of those that fail, and
# "N passed, N failed" at the end
#
# Kinds: unit prop grad gpu (C programs, and the scripts beside them), fuzz (each parser over its
# corpus), bats and golden (bats files), parsers (the bats files of tools that read foreign bytes),
# parity and lint (shell scripts), faults (N injections, 20 by default, from SEED, or FAULT=K
# alone). B is the build directory. ONLY=PATTERN runs those whose name matches. Exit status 1 when
# one failed.
set -u
: "${B:=build}"
B=$(cd "$B" && pwd) || exit 1
export B TOP="${TOP:-$(pwd)}" PATH="$B:$PATH" LC_ALL=C.UTF-8 OMP_NUM_THREADS=1 \
	OPENBLAS_NUM_THREADS=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=0}"
if [ "$(id -u)" = 0 ]; then
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
# Several ranks on few cores: do not spin, do not insist on slots.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 \
	OMPI_MCA_btl_vader_single_copy_mechanism=none
# Ranks of runs that share the machine must not be bound to the same cores.
export OMPI_MCA_hwloc_base_binding_policy=none
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0

# outcome NAME STATUS SECONDS: counts and prints one test
outcome()
{
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
		printf '  ok    %s (%ss)\n' "$1" "$3"
	else
		failed=$((failed + 1))
		printf '  FAIL  %s (%ss)\n' "$1" "$3"
		sed 's/^/        /' "$tmp/out"
	fi
}

# one NAME COMMAND...: runs one test
one()
{
	name=$1
	shift
	case $name in *${ONLY:-}*) ;; *) return ;; esac
	start=$(date +%s)
	"$@" >"$tmp/out" 2>&1
	outcome "$name" $? $(($(date +%s) - start))
}

# bats_file FILE: counts every case of the file
bats_file()
{
	case $1 in *${ONLY:-}*) ;; *) return ;; esac
	start=$(date +%s)
	bats --tap "$1" >"$tmp/out" 2>&1
	rc=$?
	ok=$(grep -c '^ok ' "$tmp/out")
	bad=$(grep -c '^not ok ' "$tmp/out")
	skip=$(grep -c '^ok .* # skip' "$tmp/out")
	[ "$rc" = 0 ] || [ "$bad" -gt 0 ] || bad=1
	passed=$((passed + ok - skip)) failed=$((failed + bad)) skipped=$((skipped + skip))
	printf '  %s  %s: %s ok, %s failed (%ss)\n' \
		"$([ "$bad" = 0 ] && echo 'ok  ' || echo FAIL)" "$1" "$((ok - skip))" "$bad" \
		$(($(date +%s) - start))
	grep '# skip' "$tmp/out" | sed 's/^/        /'
	[ "$bad" = 0 ] || sed 's/^/        /' "$tmp/out"
}

for kind; do
	case $kind in
	unit | prop | grad | gpu)
		for src in tests/"$kind"/*.c; do
			[ -e "$src" ] && one "${src%.c}" "$B/${src%.c}"
		done
		for file in tests/"$kind"/*.sh; do
			[ -e "$file" ] && one "${file%.sh}" sh "$file"
		done ;;
	fuzz)
		for src in tests/fuzz/*.c; do
			name=$(basename "$src" .c)
			[ "$name" = driver ] || one "tests/fuzz/$name" "$B/tests/fuzz/$name" \
				"tests/fuzz/corpus/$name"
		done ;;
	faults)
		[ -n "${FAULT:-}" ] || one tests/faults/replay "$B/tests/faults/replay" \
			--seeds $((1 + ${N:-20} / 100))
		one tests/faults/faults "$B/tests/faults/faults" --seed "${SEED:-1}" \
			--count "${N:-20}" --only "${FAULT:--1}"
		[ -z "${N:-}" ] || cat "$tmp/out" ;;
	bats | golden)
		for file in tests/"$kind"/*.bats; do
			[ -e "$file" ] && bats_file "$file"
		done ;;
	parsers)
		for file in index mckpt mexport mplan mshard mtok mtok_run tokenizers; do
			bats_file "tests/bats/$file.bats"
		done ;;
	*)
		for file in tests/"$kind"/*.sh; do
			[ -e "$file" ] && one "${file%.sh}" sh "$file"
		done ;;
	esac
done
if [ "$skipped" -gt 0 ]; then
	printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
else
	printf '%s passed, %s failed\n' "$passed" "$failed"
fi
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
