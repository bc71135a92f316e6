/*
 * ops.c - the table of operations in one arithmetic
 *
 * Compiled twice, as cpu_ops_f32 and cpu_ops_f64: every file that includes real.h is (see the
 * Makefile). The list of the operations is train/ops_list.h.
 */
#include "train/cpu/real.h"

#define ENTRY(name, type) .name = cpu_name(name),

const struct ops cpu_name(ops) = { OPS(ENTRY, ENTRY) };
