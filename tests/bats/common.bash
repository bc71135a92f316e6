# common.bash - what the bats files share

# fails STATUS LINE COMMAND...: the command ends so, with exactly this on standard error
fails()
{
	local want_status=$1 want=$2
	shift 2
	run --separate-stderr "$@"
	[ "$status" = "$want_status" ] || { echo "status $status: $output $stderr" >&2; return 1; }
	[ "$stderr" = "$want" ] && return
	printf 'got:  %s\nwant: %s\n' "$stderr" "$want" >&2
	return 1
}

# refused STATUS LINE COMMAND...: and with nothing on standard output
refused()
{
	fails "$@" || return 1
	[ -z "$output" ] || { echo "printed: $output" >&2; return 1; }
}

# Skips a test in which a process asks whether another one that holds a lock still runs, where an
# emulator makes up the answer.
locks_are_seen()
{
	[ -z "${RUN:-}" ] || skip "$(sed -n 's|^tests/unit/lock.c ||p' "$TOP/tests/cross/qemu.txt")"
}

# expect STATUS OUTPUT: what `run` must have given
expect()
{
	[ "$status" = "$1" ]
	[ "$output" = "$2" ]
}

# ids FILE.bin: the 16-bit tokens on one line
ids()
{
	od -An -v -tu2 -w1000000 "$1" | sed 's/^ *//;s/  */ /g'
}

# named_last FILE OTHER...: FILE got its name last, as far as the clock of the file system tells
named_last()
{
	local at
	at=$(stat -c %.9Z "$1")
	shift
	stat -c %.9Z "$@" | awk -v at="$at" '$1 "" > at "" { exit 1 }'
}
