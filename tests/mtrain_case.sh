# mtrain_case.sh - what the scripts that run mtrain share; source it. It makes $dir, enters it, and
# removes it at the end.
# shellcheck shell=sh

dir=$(mktemp -d) || exit 1
# Children must not outlive a script that has failed.
clean()
{
	[ -z "${run:-}" ] || kill -9 "$run" 2>/dev/null
	cd / && rm -rf "$dir"
}
trap clean EXIT
trap 'exit 1' INT TERM
cd "$dir" || exit 1

{ cat "$TOP/tests/tiny.conf" && echo mock-data; } >tiny.conf

# fail TEXT: prints what was expected and the output of the last command
fail()
{
	echo "failed: $*"
	[ ! -e out ] || cat out
	exit 1
}

# expect STATUS COMMAND...: runs it, with standard output and error into the file out
expect()
{
	wanted=$1
	shift
	got=0
	"$@" >out 2>&1 || got=$?
	[ "$got" = "$wanted" ] || fail "exit status $got instead of $wanted: $*"
}

# said TEXT: one line of the last output holds it
said()
{
	[ "$(grep -cF -e "$1" out)" = 1 ] || fail "not exactly one line with '$1'"
}

# one_line TEXT: this is the only line that mtrain itself said in the last output, notes apart
one_line()
{
	said "$1"
	[ "$(grep -c '^mtrain' out)" = 1 ] || fail "more than one line"
}

# tracker DIR: the iteration of the latest checkpoint, 0 without one
tracker()
{
	cat "$1/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0
}

# until_true COMMAND...: waits for it, 20 seconds at most
until_true()
{
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ "$tries" -lt 2000 ] || fail "waited in vain for: $*"
		sleep 0.01
	done
}

# start COMMAND...: runs mpirun in the background as $run, with standard output and error into the
# file out
start()
{
	: >out
	"$@" >out 2>&1 &
	run=$!
}

# finish STATUS: the command of start ends with this status within 30 seconds
finish()
{
	got=0
	since=$(date +%s)
	wait "$run" || got=$?
	run=
	[ "$1" = failure ] && [ "$got" != 0 ] || [ "$got" = "$1" ] ||
		fail "exit status $got instead of $1"
	[ $(($(date +%s) - since)) -le 30 ] || fail "it took more than 30 seconds to end"
}

# rank N: the process id of a rank of $run
rank()
{
	# The ranks are the children of mpirun, in order.
	tr ' ' '\n' <"/proc/$run/task/$run/children" | sed -n "$(($1 + 1))p"
}
