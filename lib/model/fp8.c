/* fp8.c - slots of 8-bit operands, and which linears have them */
#include "lib/model/fp8.h"
#include "lib/base/int64.h"

/* Slots of a layer; a model without experts has none for theirs. */
static int
slots(const struct model_config *c)
{
	return (c->num_experts ? (int)FP8_LINEARS : (int)FP8_EXPERT_FC1) * FP8_OPERANDS;
}

int64_t
fp8_num_slots(const struct model_config *c)
{
	return c->num_layers * slots(c);
}

int64_t
fp8_slot_number(const struct model_config *c, const struct fp8_slot *s)
{
	return (int64_t)s->layer * slots(c) + (int)s->linear * FP8_OPERANDS + (int)s->operand;
}

struct fp8_slot
fp8_slot_at(const struct model_config *c, int64_t number)
{
	int64_t within = number % slots(c);

	return (struct fp8_slot){ (int)(number / slots(c)),
		(enum fp8_linear)(within / FP8_OPERANDS),
		(enum fp8_operand)(within % FP8_OPERANDS) };
}

enum dtype
fp8_type(const struct fp8 *f, enum fp8_operand operand)
{
	return operand == FP8_DY && f->format == FP8_HYBRID ? DTYPE_F8_E5M2 : DTYPE_F8_E4M3;
}

bool
fp8_layer(const struct fp8 *f, const struct model_config *c, int64_t layer)
{
	return f->format != FP8_NONE && layer >= f->bf16_first &&
	    layer < c->num_layers - f->bf16_last;
}

enum { BLOCK = 128, COLUMNS = 4 };

/* Whether the linears of all layers read 8 bits. */
static bool
all_layers(const struct fp8 *f)
{
	return f->format != FP8_NONE && f->bf16_first + f->bf16_last == 0;
}

bool
fp8_makes_activations(const struct model_config *c, const struct layout *l, const struct fp8 *f)
{
	int64_t half = c->ffn_hidden_size / l->tensor_model_parallel_size;
	bool shared = f->recipe == FP8_BLOCKWISE && model_gated(c) && half % BLOCK;

	return all_layers(f) && !shared;
}

bool
fp8_makes_norms(const struct layout *l, const struct fp8 *f)
{
	return all_layers(f) && layout_row_shards(l) == 1;
}

int64_t
fp8_lines(int64_t k)
{
	return int64_div_up(k, BLOCK);
}

/* Columns are padded to what cuBLASLt reads at once. */
struct fp8_squares
fp8_squares(int64_t r, int64_t k)
{
	return (struct fp8_squares){ int64_div_up(r, BLOCK),
		int64_div_up(int64_div_up(k, BLOCK), COLUMNS) * COLUMNS };
}
