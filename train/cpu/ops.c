/*
 * ops.c - the table of operations in one arithmetic
 *
 * Compiled twice, as cpu_ops_f32 and cpu_ops_f64: every file that includes real.h is (see the
 * Makefile). The list of the operations is train/ops_list.h.
 */
#include "train/cpu/real.h"

const struct ops cpu_name(ops) = {
#define OPERATION(name, type) .name = cpu_name(name),
#include "train/ops_list.h"
};
