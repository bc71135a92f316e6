#!/bin/sh
# absent.sh - programs of a release hold nothing of the simulator, of which their objects are part
set -eu

# traces PROGRAM: how many symbols and texts of the simulator it holds
traces()
{
	nm "$1" | grep -c -E ' (sim_|call_begin|world_run|process_begin|faults_at)' || [ $? = 1 ]
	strings -a "$1" | grep -c -E 'sim_state|tests/sim' || [ $? = 1 ]
}

[ "$(traces "$B/sim" | grep -c '^[1-9]')" = 2 ] || {
	echo "the simulator itself is not found by what is searched for"
	exit 1
}
for tool in mtrain mtok mshard mckpt mexport mplan; do
	[ "$(traces "$B/$tool" | tr '\n' ' ')" = '0 0 ' ] || {
		echo "$tool holds something of the simulator"
		exit 1
	}
done
