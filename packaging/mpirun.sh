#!/bin/sh
# mpirun - the bundle's Open MPI, which finds its files by OPAL_PREFIX wherever the bundle lies, and
# starts ranks of this host also where there is no ssh
OPAL_PREFIX=$(cd "${0%/*}/../mpi" && pwd) || exit 1
command -v ssh >/dev/null || command -v rsh >/dev/null || OMPI_MCA_plm=${OMPI_MCA_plm:-^rsh}
export OPAL_PREFIX ${OMPI_MCA_plm:+OMPI_MCA_plm}
exec "$OPAL_PREFIX/bin/mpirun" "$@"
