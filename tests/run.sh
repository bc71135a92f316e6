#!/bin/sh
# run.sh KIND... - run the tests of each kind; print one line per test, the output of failed ones,
# and "N passed, N failed" at the end
#
# Kinds: unit prop op grad gpu (C programs, and the scripts beside them; of gpu the cases of
# operations too, against the CPU), fuzz (each parser over its corpus), bats and golden (bats
# files), parsers (the bats files of tools that read foreign bytes), parity, sim and lint (shell
# scripts), faults (N injections, 20 by default, from SEED, or FAULT=K alone). B is the build
# directory. ONLY=PATTERN runs those whose name matches. JOBS tests run at once, by default three
# for two cores, since many wait for timers, disks and other ranks for a third of their time; those
# of a GPU one after another. RUN, words like 'qemu-aarch64 -L /root', starts programs that were
# built for another machine; tests that tests/cross/qemu.txt names are skipped then. Exit status 1
# when one failed.
set -u
# Tests send SIGHUP, which nohup has them ignore for good.
[ "${HUP_IS_DEFAULT:-}" ] || HUP_IS_DEFAULT=1 exec env --default-signal=HUP sh "$0" "$@"
: "${B:=build}" "${JOBS:=$((($(nproc) * 3 + 1) / 2))}"
B=$(cd "$B" && pwd) || exit 1

# under DIR: makes DIR a build directory in which each program of B is a script that starts it by
# RUN, for the tests, which start programs by their names
under()
{
	rm -rf "$1"
	find "$B" -type f ! -name '*.[oad]' -printf '%P %m\n' | while read -r name mode; do
		mkdir -p "$1/$(dirname "$name")"
		case $name,$mode in
		*.so,* | *,6*) ln -s "$B/$name" "$1/$name" ;;
		*)
			printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$RUN" "$B/$name" >"$1/$name"
			chmod +x "$1/$name" ;;
		esac
	done
}

if [ -n "${RUN:-}" ] && [ "$1" != --one ]; then
	under "$B-run"
	B=$B-run
fi
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
# A start of MPI looks for no other network than the machine's own and no display: a fifth of its
# time.
export OMPI_MCA_pml=ob1 HWLOC_PLUGINS_PATH=/nonexistent

# operations: the files of cases
operations()
{
	printf '%s\n' tests/op/*.c | grep -v -e /driver -e /problem
}

# list KIND: its tests, KIND:NAME each
list()
{
	case $1 in
	unit | prop | grad) printf '%s\n' tests/"$1"/*.c tests/"$1"/*.sh ;;
	op) operations ;;
	gpu)
		operations
		printf '%s\n' tests/gpu/*.c tests/gpu/*.sh ;;
	fuzz) printf '%s\n' tests/fuzz/*.c | grep -v driver ;;
	faults)
		[ -n "${FAULT:-}" ] || echo tests/faults/replay.c
		echo tests/faults/faults.c ;;
	bats | golden) printf '%s\n' tests/"$1"/*.bats ;;
	parsers)
		printf 'tests/bats/%s.bats\n' index mckpt megatron mexport mplan mshard mtok \
			mtok_run tokenizers ;;
	*) printf '%s\n' tests/"$1"/*.sh ;;
	esac | while read -r file; do
		case $file in *${ONLY:-}*) [ ! -e "$file" ] || echo "$1:$file" ;; esac
	done
}

# execute KIND FILE: runs a test that is not a bats file
execute()
{
	name=${2%.c}
	case $1:$2 in
	*.sh) sh "$2" ;;
	gpu:tests/op/*) "$B/$name" cuda ;;
	fuzz:*) "$B/$name" "tests/fuzz/corpus/$(basename "$name")" ;;
	faults:*/replay.c) "$B/$name" --seeds $((1 + ${N:-20} / 100)) ;;
	faults:*) "$B/$name" --seed "${SEED:-1}" --count "${N:-20}" --only "${FAULT:--1}" ;;
	*) "$B/$name" ;;
	esac
}

# spent: the seconds since the test began, and those of a core that it took, whatever else ran
spent()
{
	awk -v clock=$(($(date +%s) - start)) 'NR == 2 {
		split($0, t, /[ms ]+/)
		printf "%ds, %.1f of a core", clock, 60 * (t[1] + t[3]) + t[2] + t[4]
	}' "$out.times"
}

# program KIND FILE: counts one test
program()
{
	execute "$1" "$2" >"$out" 2>&1
	rc=$?
	times >"$out.times"
	passed=$((rc == 0)) failed=$((rc != 0)) skipped=0
	word=ok
	[ "$rc" = 0 ] || word=FAIL
	printf '  %-4s  %s (%s)\n' "$word" "${2%.*}" "$(spent)"
	[ "$rc" = 0 ] || sed 's/^/        /' "$out"
	[ "$1" != faults ] || [ -z "${N:-}" ] || cat "$out"
}

# bats_file FILE: counts every case of the file
bats_file()
{
	bats --tap "$1" >"$out" 2>&1
	rc=$?
	times >"$out.times"
	failed=$(grep -c '^not ok ' "$out")
	skipped=$(grep -c '^ok .* # skip' "$out")
	passed=$(($(grep -c '^ok ' "$out") - skipped))
	[ "$rc" = 0 ] || [ "$failed" -gt 0 ] || failed=1
	word=ok
	[ "$failed" = 0 ] || word=FAIL
	printf '  %-4s  %s: %s ok, %s failed (%s)\n' "$word" "$1" "$passed" "$failed" "$(spent)"
	grep '# skip' "$out" | sed 's/^/        /'
	[ "$failed" = 0 ] || sed 's/^/        /' "$out"
}

# one KIND:FILE: runs a test, prints its lines at once and adds its counts to $TALLY
one()
{
	kind=${1%%:*} file=${1#*:} out=$(mktemp) start=$(date +%s) reason=
	# A launcher removes Open MPI's directory of a host when it leaves it empty, while
	# another one enters it: each test has its own, which stays.
	export OMPI_MCA_orte_tmpdir_base="$out.mpi"
	mkdir -p "$out.mpi/ompi.$(uname -n | sed 's/\..*//').$(id -u)/kept"
	[ -z "${RUN:-}" ] || reason=$(sed -n "s|^$file ||p" tests/cross/qemu.txt)
	case $reason,$file in
	?*,*)
		passed=0 failed=0 skipped=1
		printf '  skip  %s: %s\n' "$file" "$reason" ;;
	*.bats) bats_file "$file" ;;
	*) program "$kind" "$file" ;;
	esac >"$out.lines"
	cat "$out.lines"
	echo "$passed $failed $skipped" >>"$TALLY"
	rm -rf "$out" "$out.lines" "$out.times" "$out.mpi"
}

if [ "$1" = --one ]; then
	one "$2"
	exit 0
fi
TALLY=$(mktemp) || exit 1
export TALLY
trap 'rm -f "$TALLY"' EXIT
case " $* " in *' gpu '*) JOBS=1 ;; esac
for kind; do list "$kind"; done | xargs -r -P "$JOBS" -n 1 sh tests/run.sh --one
awk '{ passed += $1; failed += $2; skipped += $3 }
END {
	printf "%d passed, %d failed%s\n", passed, failed, skipped ? ", " skipped " skipped" : ""
	exit (failed > 0 || passed == 0)
}' "$TALLY"
