#!/bin/sh
# sums.sh - no library adds numbers of several ranks: the order of every sum is lib/base/tree.h's
#
# NCCL's and MPI's own reductions add in an order that follows from links, hosts and versions. Only
# a maximum, which has none, may be NCCL's.
set -u
cd "${TOP:-.}" || exit 1
calls='nccl(Sum|Prod|Avg|Reduce|ReduceScatter|RedOp[A-Za-z]*)|MPI_(SUM|PROD)'
calls="$calls|MPI_I?(Reduce|Allreduce|Reduce_scatter|Scan|Exscan)[a-z_]*"
found=$(grep -rnE "\b($calls)\b" bin lib train tests \
	--include='*.[ch]' --include='*.cu' --include='*.cuh') && {
	echo "$found"
	echo "a library's sum: queue terms and add them in the order of lib/base/tree.h"
	exit 1
}
exit 0
