/*
 * comm_list.h - the calls that are queued on a communicator: a line for each, from which all that
 * knows them by name is made
 *
 * That is the contract (comm.h), the declarations and tables of train/mpi and train/nccl, and the
 * wrappers of the log. A line names the call and the struct of its arguments. To add one:
 *
 *   train/call/NAME.h   the struct with its contract, and describe_NAME (call.h), included here
 *   train/mpi/NAME.c    mpi_NAME, the reference
 *   train/nccl/NAME.c   nccl_NAME; MPI in place of DO: there is none, and NCCL's table has NULL
 */
#ifndef TRAIN_COMM_LIST_H
#define TRAIN_COMM_LIST_H

#include "train/call/collectives.h"

/* all_gather_parts: whole gets the parts of the others, from the next rank's on; the own one is not
 * written there, and its event not recorded. All have read part when the stream passes.
 * reduce_scatter_parts: part gets the sum of this rank's part in the whole of all ranks. part may
 * lie in its place inside whole. Ranks make their own part last, the next rank's first. */
#define COMM_CALLS(DO, MPI) \
	DO(all_reduce, comm_reduce) \
	DO(all_gather, comm_gather) \
	DO(all_gather_parts, comm_parts) \
	DO(reduce_scatter_parts, comm_parts) \
	DO(all_to_all, comm_arrays) \
	DO(broadcast, comm_broadcast) \
	DO(exchange, comm_messages) \
	DO(message, comm_message) \
	DO(all_to_all_rows, rows_exchange)

#endif
