/*
 * ops_list.h - the operations: a line for each, from which all that knows them by name is made
 *
 * That is the contract (ops.h), the declarations and tables of train/cpu and train/cuda, and the
 * wrappers of the observer. A line names the operation and the struct of its arguments. To add one:
 *
 *   train/op/NAME.h     the struct with its contract, and describe_NAME (call.h), included here
 *   train/cpu/NAME.c    cpu_name(NAME), the reference
 *   train/cuda/NAME.cu  cuda_NAME; CPU in place of DO: there is none, and CUDA's table has NULL
 */
#ifndef TRAIN_OPS_LIST_H
#define TRAIN_OPS_LIST_H

#include "train/op/act.h"
#include "train/op/attention.h"
#include "train/op/dropout.h"
#include "train/op/embedding.h"
#include "train/op/experts.h"
#include "train/op/gemm.h"
#include "train/op/loss.h"
#include "train/op/norm.h"
#include "train/op/optim.h"
#include "train/op/quantise.h"
#include "train/op/rope.h"
#include "train/op/route.h"
#include "train/op/vector.h"

#define OPS(DO, CPU) \
	DO(gemm, gemm) \
	DO(norm_fwd, norm) \
	DO(norm_bwd, norm_grad) \
	DO(rope, rope) \
	DO(attention_fwd, attention) \
	DO(attention_bwd, attention_grad) \
	DO(attention_max, attention_max) \
	DO(act_fwd, act) \
	DO(act_bwd, act_grad) \
	DO(residual_fwd, residual) \
	DO(dropout_bwd, dropout_grad) \
	DO(embedding_fwd, embedding) \
	DO(embedding_bwd, embedding_grad) \
	DO(xent_stats, xent) \
	DO(xent_loss, xent) \
	DO(add, pair) \
	DO(sum, sum) \
	DO(axpby, axpby) \
	DO(fill, fill) \
	DO(normal, normal) \
	DO(cast, pair) \
	DO(split, halves) \
	DO(dot, dot) \
	DO(count_nonfinite, pair) \
	DO(count_zero, pair) \
	DO(hash, pair) \
	DO(adamw, adamw) \
	DO(sgd, sgd) \
	DO(route, route) \
	DO(route_grad, route_grad) \
	DO(drop_rows, drop_rows) \
	DO(rows_by, rows_by) \
	DO(grouped, grouped) \
	DO(expert_act, expert_act) \
	DO(expert_act_grad, expert_act_grad) \
	DO(balance, balance) \
	DO(quantise, quantise) \
	DO(scales, scales) \
	CPU(average, average)

#endif
