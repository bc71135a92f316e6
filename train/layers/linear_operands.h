/*
 * linear_operands.h - the tensors of a linear and of its gradients
 */
#ifndef TRAIN_LAYERS_LINEAR_OPERANDS_H
#define TRAIN_LAYERS_LINEAR_OPERANDS_H

#include "train/engine/engine.h"
#include "train/engine/fp8.h"

/* With fp8, x and dy may be in 8 bits: copies that the operations which made them have made
 * (fp8_input and so on). pre.data set: the tanh GELU is applied to the output in the epilogue, and
 * pre keeps its input. */
struct linear {
	struct tensor y, x, weight, bias, pre; /* bias.data NULL: none */
	const struct fp8_gemm *fp8;            /* NULL: GEMMs read 16 bits */
};
/* pre.data set: dx continues back through the tanh GELU that made x from pre. */
struct linear_grad {
	struct tensor dx, dy, x, weight, dweight, dbias, pre; /* dbias.data NULL: none */
	const struct fp8_gemm *fp8;
	int64_t first_row; /* of the T, that of dy */
};

#endif
