/*
 * ops_list.h - the operations: a line for each header of train/op, which has them by name
 *
 * A header ends with OPERATION(NAME, STRUCT) for each of its operations, and the struct of its
 * arguments. What knows them all defines that macro and includes this list, which undefines it:
 * the contract (ops.h), the declarations and tables of train/cpu and train/cuda, and the wrappers
 * of the observer. ops.h comes before, so that the headers' structs are there. To add one:
 *
 *   train/op/NAME.h     the struct with its contract, describe_NAME (call.h), and its entry
 *   train/cpu/NAME.c    cpu_name(NAME), the reference
 *   train/cuda/NAME.cu  cuda_NAME; without it the entry says OPERATION_CPU, and CUDA's table has
 *                       NULL
 *   tests/op/NAME.c     its cases
 */
#if defined(OPERATION) && !defined(OPERATION_CPU)
#define OPERATION_CPU OPERATION
#endif

#include "train/op/act.h"
#include "train/op/argmax.h"
#include "train/op/attention.h"
#include "train/op/delta_rule.h"
#include "train/op/dropout.h"
#include "train/op/embedding.h"
#include "train/op/experts.h"
#include "train/op/gate.h"
#include "train/op/gemm.h"
#include "train/op/glu.h"
#include "train/op/latent.h"
#include "train/op/linear_step.h"
#include "train/op/loss.h"
#include "train/op/norm.h"
#include "train/op/optim.h"
#include "train/op/quantise.h"
#include "train/op/rope.h"
#include "train/op/route.h"
#include "train/op/short_conv.h"
#include "train/op/vector.h"

#undef OPERATION
#undef OPERATION_CPU
