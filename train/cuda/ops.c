/*
 * ops.c - the table of operations
 *
 * The list of the operations is train/ops_list.h; the CPU's implementation is the reference for all
 * of them. Those that the CPU alone has are NULL, and no run that calls one begins.
 */
#include "train/cuda/impl.h"

const struct ops cuda_ops = {
#define OPERATION(name, type) .name = cuda_##name,
#define OPERATION_CPU(name, type)
#include "train/ops_list.h"
};
