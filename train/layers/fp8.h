/*
 * fp8.h - GEMMs of 8-bit operands, and the copies that they read
 */
#ifndef TRAIN_LAYERS_FP8_H
#define TRAIN_LAYERS_FP8_H

#include "train/layers/linear_operands.h"

/* The copies of an operand of rows x columns, for what makes it or for quantise: of the input, for
 * the forward GEMM; of the same transposed, for the weight's gradient; of the output's gradient
 * both ways, for both gradients. They last until the GEMMs that read them: of other linears'
 * inputs none may be made meanwhile, nor of other outputs' gradients, but of fc1's while fc2's
 * weight has none yet. */
struct quantise fp8_input(struct step *s, const struct fp8_gemm *p, const int64_t size[2]);
struct quantise fp8_input_transposed(
    struct step *s, const struct fp8_gemm *p, const int64_t size[2]);
struct quantise fp8_output_gradient(
    struct step *s, const struct fp8_gemm *p, const int64_t size[2]);
/* GEMMs of 8-bit operands (fp8.c), which linear.c calls where l->fp8 is set. */
void fp8_forward(struct step *s, const struct linear *l);
void fp8_input_gradient(struct step *s, const struct linear_grad *l);
void fp8_weight_gradient(struct step *s, const struct linear_grad *l);
/* A GEMM of experts with their weights, of 8-bit copies of its rows and of those that p has in
 * place of its b. */
void fp8_grouped(struct step *s, const struct fp8_gemm *p, const struct grouped *gemm);

#endif
