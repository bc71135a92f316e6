/*
 * comm_list.h - the calls that are queued on a communicator: a line for each header of train/call
 *
 * As ops_list.h: a header ends with CALL(NAME, STRUCT) for each of its calls, from which the
 * contract (comm.h), the declarations and tables of train/mpi and train/nccl, and the wrappers of
 * the log are made. To add one:
 *
 *   train/call/NAME.h   the struct with its contract, describe_NAME (call.h), and its entry
 *   train/mpi/NAME.c    mpi_NAME, the reference
 *   train/nccl/NAME.c   nccl_NAME; without it the entry says CALL_MPI, and NCCL's table has NULL
 */
#if defined(CALL) && !defined(CALL_MPI)
#define CALL_MPI CALL
#endif

#include "train/call/collectives.h"

#undef CALL
#undef CALL_MPI
