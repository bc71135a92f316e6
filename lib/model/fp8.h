/*
 * fp8.h - the linears whose GEMMs read 8-bit operands: which they are, and the slots of their
 * scales
 *
 * The linears of a layer multiply E4M3, and E5M2 where an operand is the gradient of an output;
 * head, embedding, norms, attention and router stay in 16 bits. Joined weights (q, k and v; gate
 * and up) are one operand, and so are the weights of a layer's experts, and the rows of all of
 * them: a slot then means the same however experts and rows are spread over ranks. Each operand has
 * a slot: a factor, the largest magnitude of this step, and with delayed scaling the largest of the
 * steps before. All ranks hold the slots of all layers.
 *
 * The GEMMs of experts' weight gradients read 16-bit rows: experts take any numbers of rows, so
 * transposed copies of these would not be dense along the sum. Source: Micikevicius 2022
 * arXiv:2209.05433; docs/math.md 6.
 */
#ifndef MODEL_FP8_H
#define MODEL_FP8_H

#include "lib/model/block/sharding.h"
#include "lib/model/config.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

/* The linears of layers, in the order of their slots in checkpoints; and their operands: input,
 * weight, gradient of the output. Their weights are rows of their blocks (block/linears.h). */
enum fp8_linear {
	FP8_QKV,
	FP8_PROJ,
	FP8_FC1,
	FP8_FC2,
	FP8_EXPERT_FC1, /* of all experts that choose their rows */
	FP8_EXPERT_FC2,
	FP8_SHARED_FC1, /* of the shared expert */
	FP8_SHARED_FC2,
	FP8_LINEARS
};
enum fp8_operand { FP8_X, FP8_W, FP8_DY, FP8_OPERANDS };

/* Numbers of a slot's scale: the inverse of its factor, the factor, two that are not used. */
enum { FP8_SCALE_ROW = 4 };

struct fp8_slot {
	int layer; /* of the model, from 0 */
	enum fp8_linear linear;
	enum fp8_operand operand;
};

/* Each layer has as many: in models with experts for linears too that it has not. */
int64_t fp8_num_slots(const struct model_config *c);
/* The number of a slot, by layers; and the reverse. */
int64_t fp8_slot_number(const struct model_config *c, const struct fp8_slot *s);
struct fp8_slot fp8_slot_at(const struct model_config *c, int64_t number);
/* The type of an operand's copy. */
enum dtype fp8_type(const struct fp8 *f, enum fp8_operand operand);
/* Whether the linears of a layer, counted from 0, read 8-bit operands; those of other blocks do
 * not. */
bool fp8_layer(const struct fp8 *f, const struct model_config *c, int64_t layer);

/* Whether outputs of activations are made in 8 bits, so that nothing holds them in 16: the linears
 * of all layers read 8 bits, and the halves of a gated gradient have no block in common. */
bool fp8_makes_activations(
    const struct model_config *c, const struct layout *l, const struct fp8 *f);
/* Whether norms of blocks' inputs are made in 8 bits, whose rows no tensor rank gathers. */
bool fp8_makes_norms(const struct layout *l, const struct fp8 *f);

/* Blocks of a tensor [r,k] that is summed along k, as scale_kind of train/ops.h has the shapes of
 * their scales: lines of 128 along k, [lines, r]; squares of 128 x 128, [rows, columns]. */
struct fp8_squares {
	int64_t rows, columns;
};
int64_t fp8_lines(int64_t k);
struct fp8_squares fp8_squares(int64_t r, int64_t k);

#endif
