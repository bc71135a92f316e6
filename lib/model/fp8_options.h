/*
 * fp8_options.h - 8-bit operands by Megatron-LM's options, and where they are possible
 */
#ifndef MODEL_FP8_OPTIONS_H
#define MODEL_FP8_OPTIONS_H

#include "lib/base/opt.h"
#include "lib/model/config.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

/* The options as typed; choices are indices. */
struct fp8_options {
	int format, recipe, amax_compute_algo;
	int64_t margin, amax_history_len, num_layers_at_start_in_bf16, num_layers_at_end_in_bf16;
	bool first_last_layers_bf16;
};

/* Megatron-LM's, "none" apart; formats and recipes in the order of their enums. */
extern const char *const fp8_formats[], *const fp8_recipes[], *const fp8_algos[];

/* Rows of a table of options whose struct S holds the options M. */
/* clang-format off */
#define FP8_INT(S, M, n, f, lo, d, ...) \
	{ .name = n, .type = OPT_INT, .off = offsetof(S, M.f), .min = lo, .max = 1 << 20, \
	  .def = d, .help = __VA_ARGS__ }
#define FP8_CHOICE(S, M, n, f, c, d, ...) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, M.f), .choices = c, .def = d, \
	  .help = __VA_ARGS__ }
#define FP8_OPTS(S, M) \
	FP8_CHOICE(S, M, "fp8-format", format, fp8_formats, "none", \
	         "with --bf16: the linears of layers multiply 8-bit operands, in e4m3, or with " \
	         "hybrid gradients of outputs in e5m2; weights, sums and all else stay as they " \
	         "are, and so do the operands of the gradients of experts' weights"), \
	FP8_CHOICE(S, M, "fp8-recipe", recipe, fp8_recipes, "delayed", \
	         "how 8-bit operands are scaled: delayed, by the largest magnitudes of steps " \
	         "before; tensorwise, by their own; blockwise, by those of 128 neighbours, or of " \
	         "128 x 128 weights, in powers of two; others are not supported", \
	         .needs = "fp8-format"), \
	FP8_INT(S, M, "fp8-margin", margin, 0, "0", \
	         "powers of two that delayed scaling leaves above the largest magnitude", \
	         .needs = "fp8-format&fp8-recipe=delayed"), \
	FP8_INT(S, M, "fp8-amax-history-len", amax_history_len, 1, "1", \
	         "steps whose largest magnitudes delayed scaling keeps", \
	         .needs = "fp8-format&fp8-recipe=delayed"), \
	FP8_CHOICE(S, M, "fp8-amax-compute-algo", amax_compute_algo, fp8_algos, "most_recent", \
	         "delayed scaling goes by the last of these steps, or by the max of all", \
	         .needs = "fp8-format&fp8-recipe=delayed"), \
	{ .name = "fp8-param-gather", .type = OPT_NOTE, \
	  .help = "weights are gathered in bf16, and each rank copies those that it " \
	          "multiplies to 8 bits" }, \
	{ .name = "first-last-layers-bf16", .type = OPT_FLAG, \
	  .off = offsetof(S, M.first_last_layers_bf16), \
	  .help = "with --fp8-recipe tensorwise or blockwise: the next two options count", \
	  .needs = "fp8-format" }, \
	FP8_INT(S, M, "num-layers-at-start-in-bf16", num_layers_at_start_in_bf16, 0, "1", \
	         "first layers whose linears stay in 16 bits", \
	         .needs = "fp8-format&first-last-layers-bf16"), \
	FP8_INT(S, M, "num-layers-at-end-in-bf16", num_layers_at_end_in_bf16, 0, "1", \
	         "last layers, likewise", .needs = "fp8-format&first-last-layers-bf16")
/* clang-format on */

/* Fills s->fp8; the rest of s is complete, and the layout legal. -1 with the option and the
 * rule. */
int fp8_resolve(const struct fp8_options *o, const struct model_config *c, const struct layout *l,
    struct train_shape *s, struct err *e);

#endif
