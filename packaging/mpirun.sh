#!/bin/sh
# mpirun - the bundle's Open MPI, which finds its files by OPAL_PREFIX wherever the bundle lies
OPAL_PREFIX=$(cd "${0%/*}/../mpi" && pwd) || exit 1
export OPAL_PREFIX
exec "$OPAL_PREFIX/bin/mpirun" "$@"
