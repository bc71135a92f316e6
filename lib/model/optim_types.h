/*
 * optim_types.h - the types in which the optimizer keeps its arrays, by Megatron-LM's options for
 * its precision-aware optimizer
 */
#ifndef MODEL_OPTIM_TYPES_H
#define MODEL_OPTIM_TYPES_H

#include "lib/base/opt.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

/* The options as typed; types are indices of their choices. */
struct optim_type_options {
	bool use_precision_aware_optimizer;
	int main_params, main_grads, exp_avg, exp_avg_sq;
	bool optimizer_cpu_offload;
	double optimizer_offload_fraction;
};

/* Megatron-LM's choices. */
extern const char *const optim_main_params_types[], *const optim_main_grads_types[],
							*const optim_moment_types[];

/* Rows of a table of options whose struct S holds the options M. */
/* clang-format off */
#define OPTIM_TYPE(S, M, n, f, c, h) \
	{ .name = n, .type = OPT_CHOICE, .off = offsetof(S, M.f), .choices = c, .def = "fp32", \
	  .help = h }
#define OPTIM_TYPE_OPTS(S, M) \
	{ .name = "use-precision-aware-optimizer", .type = OPT_FLAG, \
	  .off = offsetof(S, M.use_precision_aware_optimizer), \
	  .help = "Adam keeps its arrays in the types of the next four options, and with --bf16 " \
	          "only the 16 bits of master weights that the weights lack" }, \
	OPTIM_TYPE(S, M, "main-params-dtype", main_params, optim_main_params_types, \
	         "type of master weights; only fp32 is supported"), \
	OPTIM_TYPE(S, M, "main-grads-dtype", main_grads, optim_main_grads_types, \
	         "type in which a data rank keeps its sums of gradients: fp32, or bf16 with " \
	         "--data-parallel-sharding-strategy optim_grads or optim_grads_params"), \
	OPTIM_TYPE(S, M, "exp-avg-dtype", exp_avg, optim_moment_types, \
	         "type of the averages of gradients: fp32, or bf16, which is rounded " \
	         "stochastically; others are not supported"), \
	OPTIM_TYPE(S, M, "exp-avg-sq-dtype", exp_avg_sq, optim_moment_types, \
	         "type of the averages of squared gradients, likewise"), \
	{ .name = "optimizer-cpu-offload", .type = OPT_FLAG, \
	  .off = offsetof(S, M.optimizer_cpu_offload), \
	  .help = "master weights and Adam's averages in host memory, where the CPU updates them " \
	          "beside the next step's forward pass; implies " \
	          "--use-precision-aware-optimizer" }, \
	{ .name = "optimizer-offload-fraction", .type = OPT_NUMBER, \
	  .off = offsetof(S, M.optimizer_offload_fraction), .max = 1, .def = "1", \
	  .help = "with --optimizer-cpu-offload: the share of them, in whole buckets from the " \
	          "last one on", .needs = "optimizer-cpu-offload" }
/* clang-format on */

/* Fills s->optim; type, sharding and rule of s are set. -1 with the option, the rule and a legal
 * value. A line in notes for each option that changes nothing. */
int optim_types_resolve(const struct optim_type_options *o, const struct layout *l,
    struct train_shape *s, struct str *notes, struct err *e);
/* The optimizer goes to the host, or its moments become BF16, in a shape whose rule may choose
 * types. */
void optim_types_offload(struct train_shape *s);
void optim_types_bf16_moments(struct train_shape *s);

#endif
