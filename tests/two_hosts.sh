# two_hosts.sh - two hosts of one machine for scripts that source it
#
# They are network and host-name namespaces, joined by a veth pair; mpirun starts its daemon on the
# other one by a script in place of ssh.
# shellcheck shell=sh

one=10.77.0.1 two=10.77.0.2

# two_hosts_enter SCRIPT: reruns the script within namespaces of its own; false, with a line that
# says so, on a machine that lets nobody make them
two_hosts_enter()
{
	[ -z "${HOSTS_INSIDE:-}" ] || return 0
	if ! unshare -Urnu ip link add v0 type veth peer name v1 >/dev/null 2>&1; then
		echo "skipped: namespaces and veth links cannot be made here (unshare -Urnu, ip)"
		return 1
	fi
	export HOSTS_INSIDE=1
	exec unshare -Urnu sh "$1"
}

# two_hosts_address ADDRESS: sets up this end of the link, and the loopback
two_hosts_address()
{
	echo "ip link set lo up && ip addr add $1/24 dev veth0 && ip link set veth0 up"
}

# two_hosts_make: hosta is this one, $one; $there before a command runs it on hostb, $two. Files go
# into the directory.
two_hosts_make()
{
	# mpirun takes root within a namespace for root.
	export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	mkfifo ready
	unshare -nu sh -c 'hostname hostb; echo >ready; exec sleep 7200' &
	other=$!
	read -r _ <ready
	there="nsenter -t $other -n -u"
	hostname hosta
	{
		ip link add veth0 type veth peer name veth0 netns "$other" &&
			sh -c "$(two_hosts_address $one)" &&
			$there sh -c "$(two_hosts_address $two)"
	} >out 2>&1 || fail "the link"
	# In place of ssh: HOST COMMAND...
	printf '#!/bin/sh\nshift\nexec %s sh -c "$*"\n' "$there" >agent
	chmod +x agent
	export OMPI_MCA_plm_rsh_agent="$PWD/agent" OMPI_MCA_oob_tcp_if_include=10.77.0.0/24 \
		OMPI_MCA_btl_tcp_if_include=10.77.0.0/24
}

# two_hosts_end: with all processes that still run on the other one
two_hosts_end()
{
	net=$(readlink "/proc/$other/ns/net")
	for p in /proc/[0-9]*; do
		[ "$(readlink "$p/ns/net" 2>/dev/null)" != "$net" ] || kill -9 "${p#/proc/}"
	done 2>/dev/null
}
