#!/bin/sh
# rails.sh - the rate of each rail is measured before the first step, and slow ones are named
#
# Four ranks as hosts of one machine, that measure and compute what they do as one host; eight as
# four hosts, of which the messages of one rank are late, also on a machine with too few cores for
# them, where that is no fault of a rail; ports that promise more than there is; and two hosts in
# network namespaces, joined by a slow link, where these can be made.
# shellcheck source=tests/two_hosts.sh disable=SC2046,SC2086
. "$TOP/tests/two_hosts.sh"
two_hosts_enter "$0" || :
# shellcheck source=tests/parity/common
. "$TOP/tests/parity/common"
if [ -n "${HOSTS_INSIDE:-}" ]; then
	two_hosts_make
	trap 'two_hosts_end; rm -rf "$tmp"' EXIT
fi
model="$shape --num-layers 2 --hidden-size 64 --seq-length 256 --mock-data --train-iters 1
	--lr 1e-3"
of_ports="rails carry less than half of what their ports do, .*:"
mkdir bin
cat >bin/mtrain <<END
#!/bin/sh
LD_PRELOAD=$B/tests/parity/rails.so exec $B/mtrain "\$@"
END
chmod +x bin/mtrain
export PATH="$PWD/bin:$PATH"

# said PATTERN: rank 0 has said it once
said()
{
	[ "$(grep -c "^mtrain\[0\]: $1" log)" = 1 ] || fail "not one line '$1'"
}

# port DEVICE STATE RATE: makes a port as /sys has it
port()
{
	mkdir -p "ports/$1/ports/1"
	echo "$2" >"ports/$1/ports/1/state"
	echo "$3" >"ports/$1/ports/1/rate"
}
export RAILS_PORTS="$PWD/ports" RAILS_CORES=8

# The memory in which rails are measured is that of the steps.
for hosts in 1 2; do
	train 4 --train-iters 2 --metrics-file "$hosts.jsonl" --pretend-hosts $hosts
	results "$hosts.jsonl" >"$hosts.steps"
	[ $hosts = 2 ] || ! grep -q rails log || fail "one host has no rails"
done
said 'rails: measured [0-9.]* GB/s (least [0-9.]*: [^ ]*#[01], rank [0-3])$'
! grep -q 'half of what their ports\|NCCL' log || fail "said of ports that are not there"
same_steps "a run whose rails were measured" 1.steps 2.steps
# Arenas of less than two mebibytes are not measured.
train 4 --seq-length 16 --pretend-hosts 2
! grep -q 'rails' log || fail "rails measured without room"

# Of four hosts the second one's first rank is late. Those before and after it are as slow.
RAILS_SLOW=2 train 8 --pretend-hosts 4
said 'rails: measured [0-9.]* GB/s (least [0-9.]*: [^ ]*#[012], rank [024])$'
said 'rails carry less than 0.7 of the median, [0-9.]* GB/s: .*#1, rank 2 ('
RAILS_CORES=7 RAILS_SLOW=2 train 8 --pretend-hosts 4
said 'rails: measured .*#[012], rank [024]), not judged where ranks share cores$'
! grep -q 'rails carry' log || fail "ranks that wait for cores have slow rails"

# A port of a rate that no loopback has, beside one that is down and a slow one.
port mlx5_0 '4: ACTIVE' '4000000 Gb/sec (4X NDR)'
port mlx5_1 '1: DOWN' '4000000 Gb/sec (4X NDR)'
port mlx5_2 '4: ACTIVE' '100 Gb/sec (4X EDR)'
train 4 --pretend-hosts 2
said 'rails: 1 port of 4e+06 Gb/s a host; measured '
said "$of_ports .*#0, rank 0 ([0-9.]* of 1.25e+05 GB/s);"

[ -n "${HOSTS_INSIDE:-}" ] || exit 0
slow="tc qdisc add dev veth0 root tbf rate 400mbit burst 64kb latency 50ms"
if ! { $slow && $there $slow; } 2>log; then
	echo "skipped: no slow link can be made (tc)"
	exit 0
fi
# 50 MB/s each way, of a port that both share.
port mlx5_0 '4: ACTIVE' '4 Gb/sec (4X NDR)'
rm -r ports/mlx5_2
mpirun -np 2 --host $one:1,$two:1 -x RAILS_PORTS -x RAILS_CORES mtrain $model >log 2>&1 ||
	fail "two hosts"
said 'rails: 1 port of 4 Gb/s a host; measured 0.0[0-9]* GB/s (least 0.0.*: host[ab], rank [01])$'
said "$of_ports hosta, rank 0 (.*; hostb, rank 1 ("
