#!/bin/sh
# sums.sh - no library adds numbers of several ranks: the order of every sum is lib/base/tree.h's
#
# NCCL's and MPI's own reductions add in an order that follows from links, hosts and versions. Only
# maxima and sums of integers, whose order does not show, may be NCCL's: one line, in which floating
# types are left out just before.
set -u
cd "${TOP:-.}" || exit 1
calls='nccl(Sum|Prod|Avg|Reduce|ReduceScatter|RedOp[A-Za-z]*)|MPI_(SUM|PROD)'
calls="$calls|MPI_I?(Reduce|Allreduce|Reduce_scatter|Scan|Exscan)[a-z_]*"
integers='op == REDUCE_MAX ? ncclMax : ncclSum, g->handle, cu_handle(st)),'
found=$(grep -rnE "\b($calls)\b" bin lib train tests \
	--include='*.[ch]' --include='*.cu' --include='*.cuh' | grep -vF "$integers") && {
	echo "$found"
	echo "a library's sum: queue terms and add them in the order of lib/base/tree.h"
	exit 1
}
if ! grep -B 6 -F "$integers" train/nccl/comm.c | grep -qF 'dtype_is_float(t->dtype)'; then
	echo "train/nccl/comm.c: floating types are not left out of the library's sum"
	exit 1
fi
exit 0
