#!/bin/sh
# check - one line with what this host lacks to run the tools beside it, and status 2; by sh alone
for tool in mtok mshard mplan mckpt mexport mtrain; do
	{ said=$("${0%/*}/$tool" --version 2>&1); } 2>/dev/null && continue
	[ $? = 132 ] && lacks=' AVX2 of its processor (x86-64-v3)' || lacks=''
	while [ "$said" != "${said#*version \`*\' not found}" ]; do
		said=${said#*version \`} lacks="$lacks ${said%%\'*}"
	done
	said=${said#*loading shared libraries: }
	case $said in libmpi.*) said="$said; load a module with Open MPI 4" ;; esac
	echo "check: $tool: ${lacks:+this host lacks}${lacks:-${said:-it ends at once}}" >&2; exit 2
done
gpus=${said#* cuda (not on this host: } # mtrain then computes on the CPU: no failure
[ "$gpus" = "$said" ] || echo "check: mtrain: without GPUs: ${gpus%) cpu*}" >&2
