/*
 * capacity.h - how many rows of tokens experts take
 *
 * A rank keeps room for a number of rows and takes more in further rounds of as many, whose rows
 * are not kept: they are sent, multiplied and sent back one round after the other, and once more
 * in the backward pass. No row is dropped for want of room. Where an expert has a capacity, it
 * takes no more than so many rows of each rank, and the others are dropped: a token goes without
 * that expert, and the weights of its others are as they were.
 */
#ifndef MODEL_CAPACITY_H
#define MODEL_CAPACITY_H

#include "lib/base/opt.h"
#include "lib/model/config.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

/* The options as typed. */
struct capacity_options {
	double rank_factor, factor;
	int policy;
	bool pad, balanced;
};

/* Megatron-LM's words, in the order of enum drop_policy. */
extern const char *const drop_policies[];

/* Rows of a table of options whose struct S holds the options M. */
/* clang-format off */
#define CAPACITY_OPTS(S, M) \
	{ .name = "moe-expert-rank-capacity-factor", .type = OPT_NUMBER, \
	  .off = offsetof(S, M.rank_factor), .min = 0.01, .max = 1e6, .def = "1.5", \
	  .help = "rows for which a rank that shares experts keeps room, over the mean number " \
	          "that ranks get; more are taken in further rounds, which the backward pass " \
	          "repeats: no row is dropped", .needs = "num-experts" }, \
	{ .name = "moe-expert-capacity-factor", .type = OPT_NUMBER, \
	  .off = offsetof(S, M.factor), .min = -1, .max = 1e6, .def = "0", \
	  .help = "most rows of a rank that an expert takes in a micro batch, over the mean; " \
	          "others are dropped; 0 or less: it takes all", .needs = "num-experts" }, \
	{ .name = "moe-token-drop-policy", .type = OPT_CHOICE, .off = offsetof(S, M.policy), \
	  .choices = drop_policies, .def = "probs", \
	  .help = "with --moe-expert-capacity-factor: what is dropped of an expert's rows, those " \
	          "of the lowest weights (probs), or the last (position)", \
	  .needs = "num-experts&moe-expert-capacity-factor" }, \
	{ .name = "moe-pad-expert-input-to-capacity", .type = OPT_FLAG, \
	  .off = offsetof(S, M.pad), \
	  .help = "changes nothing: experts multiply the rows that they get, and no others", \
	  .needs = "num-experts" }, \
	{ .name = "moe-router-force-load-balancing", .type = OPT_FLAG, \
	  .off = offsetof(S, M.balanced), \
	  .help = "random logits in place of the router's, so that experts get about equal " \
	          "numbers of rows: for benchmarks, not for training", \
	  .needs = "num-experts" }
/* clang-format on */

/* Fills what s has of it. -1 with the option and the rule; a line in notes for an option that
 * changes nothing. */
int capacity_resolve(const struct opt_parse *p, const struct capacity_options *o,
    const struct model_config *c, struct train_shape *s, struct str *notes, struct err *e);

/* Rows of a rank that an expert takes in a micro batch: k R / E times the factor, or R. */
int64_t capacity_of_expert(
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

/* Rows that arrive at the experts of a rank, in a layer of a micro batch, of the tokens of each
 * host that shares them: at most so many, in as many rounds of so many. A round has all rows of a
 * rank that shares its experts with none. */
struct received_rows {
	int64_t most, round, rounds;
};
struct received_rows capacity_received(
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

/* Rows of the residual stream that a rank holds of a micro batch. */
int64_t capacity_rows(const struct layout *l, const struct train_shape *s);
/* Whether tensor ranks sum rows in parts, for which they must have as many each. */
bool capacity_in_parts(const struct layout *l, const struct train_shape *s);

#endif
