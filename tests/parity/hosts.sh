#!/bin/sh
# hosts.sh - a run over two hosts trains as one on a single host does, to the bytes of its
# checkpoint, also where ranks are dealt to them in turn; when the link between them is
# cut, all ranks end with status 4 within the time-out, and those that know the lost rank name it;
# or mpirun notices it first, and ends all
set -u
# shellcheck source=tests/two_hosts.sh
. "$TOP/tests/two_hosts.sh"
two_hosts_enter "$0" || exit 0
# shellcheck source=tests/mtrain_case.sh
. tests/mtrain_case.sh
two_hosts_make
# Processes that still run on the other host end with it.
trap 'two_hosts_end; clean' EXIT

# --- the runs -------------------------------------------------------------------------------------

# What mpirun starts: what a rank says and its status are left in files.
cat >rank.sh <<'END'
hostname >host.$OMPI_COMM_WORLD_RANK
mtrain "$@" >out.$OMPI_COMM_WORLD_RANK 2>&1
echo $? >status.$OMPI_COMM_WORLD_RANK
END

# on LIST RANKS OPTION...: so many ranks on these hosts, in the background as $run
on()
{
	rm -f status.* host.*
	list=$1 ranks=$2
	shift 2
	start mpirun -np "$ranks" --host "$list" sh rank.sh --config tiny.conf "$@"
}

# hosts LIST OPTION...: two tensor ranks
hosts()
{
	list=$1
	shift
	on "$list" 2 --tensor-model-parallel-size 2 "$@"
}

# carries PREFIX: true when the link is up on a host; the kernel takes up to a second to find out
carries()
{
	$1 ip link show veth0 | grep -q 'state UP'
}

# ended: true when both ranks have ended
ended()
{
	[ -s status.0 ] && [ -s status.1 ]
}

# steps FILE: without the fields that tell the time
steps()
{
	sed 's/, "tokens_per_second".*//' "$1"
}

for list in $one:2 $one:1,$two:1; do
	hosts "$list" --train-iters 5 --metrics-file "$list.jsonl"
	finish 0
	[ "$(cat status.0 status.1 | tr '\n' ' ')" = "0 0 " ] || fail "$list: $(cat out.0 out.1)"
	steps "$list.jsonl" >"$list"
done
[ "$(cat host.0 host.1 | tr '\n' ' ')" = "hosta hostb " ] || fail "the ranks are on $(cat host.*)"
[ "$(wc -l <"$list")" = 5 ] || fail "not five steps"
cmp "$one:2" "$list" >out 2>&1 || fail "two hosts train otherwise than one"

# shards NAME LIST: 20 steps of four data ranks, with a checkpoint
shards()
{
	on "$2" 4 --train-iters 20 --use-distributed-optimizer \
		--metrics-file "$1.jsonl" --save "$1" --save-interval 20
	finish 0
	steps "$1.jsonl" >"$1.steps"
	rm "$1"/iter_*/options.conf
	sed -i '/options.conf/d; $d' "$1"/iter_*/manifest.tsv
	cat out.0 >"$1.said"
}

# as_one NAME: it trained as one host did
as_one()
{
	cmp one.steps "$1.steps" >out 2>&1 || fail "$1: other steps than on one host"
	diff -r one "$1" >out 2>&1 || fail "$1: another checkpoint than on one host"
}

# Two data ranks on each host communicate on two levels, and on one if they are dealt in turn.
shards one $one:4
shards two $one:2,$two:2
export OMPI_MCA_rmaps_base_mapping_policy=node
shards dealt $one:2,$two:2
unset OMPI_MCA_rmaps_base_mapping_policy
as_one two
as_one dealt
grep -q '^mtrain\[0\]: 2 hosts of 2 ranks; inside a host: data 2; between hosts: data 2$' \
	two.said ||
	fail "rank 0 does not say where the ranks are: $(cat two.said)"
grep -q '^mtrain\[0\]: data ranks 0 to 3: 2 on hosta, 2 on hostb, which' dealt.said ||
	fail "no warning of ranks that are dealt to hosts: $(cat dealt.said)"

# The link is cut between two steps. What the lost host says no longer comes here, but its rank has
# ended by itself.
limit=3
hosts $one:1,$two:1 --train-iters 1000000 --log-interval 100 --metrics-file cut.jsonl \
	--distributed-timeout-seconds-after-init $limit
until_true grep -qs '"iteration": 20,' cut.jsonl
ip link set veth0 down
since=$(date +%s)
until_true ended
took=$(($(date +%s) - since))
kill -9 "$run"
wait "$run" 2>/dev/null
run=
[ "$took" -le $((limit + 10)) ] || fail "it took $took seconds to end"
[ "$(cat status.0 status.1 | tr '\n' ' ')" = "4 4 " ] ||
	fail "statuses $(cat status.0 status.1): $(cat out.0 out.1)"
late="--distributed-timeout-seconds-after-init $limit"
grep -q "^mtrain\[0\]: $late: .*rank 1 (hostb, rail 0)" out.0 ||
	fail "rank 0 does not name the lost one: $(cat out.0)"
grep -q "^mtrain\[1\]: $late: .*rank 0 (hosta, rail 0)" out.1 ||
	fail "rank 1 does not name the lost one: $(cat out.1)"

# mpirun notices a lost host by probes of its own connections: with these settings it ends all ranks
# and itself, where the ranks' time-out is longer than the probes take.
probes=5
export OMPI_MCA_oob_tcp_keepalive_time=2 OMPI_MCA_oob_tcp_keepalive_intvl=1 \
	OMPI_MCA_oob_tcp_keepalive_probes=3
ip link set veth0 up
for side in '' "$there"; do
	until_true carries "$side"
	$side ip neigh flush dev veth0
done
rm -f cut.jsonl
hosts $one:1,$two:1 --train-iters 1000000 --log-interval 100 --metrics-file cut.jsonl \
	--distributed-timeout-seconds-after-init 60
until_true grep -qs '"iteration": 20,' cut.jsonl
ip link set veth0 down
since=$(date +%s)
finish 205
took=$(($(date +%s) - since))
[ "$took" -le $((probes + 10)) ] || fail "it took mpirun $took seconds to end"
said "ORTE has lost communication with a remote daemon"

# none_left: no rank runs on either host
none_left()
{
	for p in /proc/[0-9]*; do
		case $(readlink "$p/ns/net" 2>/dev/null) in
		"$(readlink /proc/self/ns/net)" | "$net")
			! grep -qs '^Name:.mtrain' "$p/status" || return 1 ;;
		esac
	done
}
net=$(readlink "/proc/$other/ns/net")
until_true none_left
