/*
 * capacity.h - how many rows of tokens the experts of a rank take
 *
 * A rank keeps room for a number of rows and takes more in further windows of as many, whose rows
 * are not kept: they are sent, multiplied and sent back one window after the other, and once more
 * in the backward pass. No row is dropped, and nothing has to be known before the run.
 */
#ifndef MODEL_CAPACITY_H
#define MODEL_CAPACITY_H

#include "lib/base/opt.h"
#include "lib/model/config.h"
#include "lib/model/layout.h"
#include "lib/model/shape.h"

/* The options as typed. */
struct capacity_options {
	double rank_factor;
};

/* Rows of a table of options whose struct S holds the options M. */
/* clang-format off */
#define CAPACITY_OPTS(S, M) \
	{ .name = "moe-expert-rank-capacity-factor", .type = OPT_NUMBER, \
	  .off = offsetof(S, M.rank_factor), .min = 0.01, .max = 1e6, .def = "1.5", \
	  .help = "rows for which a rank that shares experts keeps room, over the mean number " \
	          "that ranks get; more are taken in further rounds, which the backward pass " \
	          "repeats: no row is dropped" }
/* clang-format on */

/* Fills what s has of it. -1 with the option and the rule. */
int capacity_resolve(const struct opt_parse *p, const struct capacity_options *o,
    const struct model_config *c, struct train_shape *s, struct err *e);

/* Rows that arrive at the experts of a rank, in a layer of a micro batch: at most so many, in as
 * many windows of so many. A window has all rows of a rank that shares its experts with none. */
struct arriving {
	int64_t most, window, windows;
};
struct arriving capacity_arriving(
    const struct model_config *c, const struct layout *l, const struct train_shape *s);

/* Rows of the residual stream that a rank holds of a micro batch. */
int64_t capacity_rows(const struct layout *l, const struct train_shape *s);

#endif
