/*
 * ffn.h - what the second blocks of layers, MLP and experts, hold alike: norms, input and output
 */
#ifndef MODEL_BLOCK_FFN_H
#define MODEL_BLOCK_FFN_H

#include "lib/model/block/block.h"
#include "lib/model/block/rows.h"

/* Their numbers, counted from the first of the block. */
enum ffn_param { FFN_NORM, FFN_NORM_BIAS, FFN_POST_NORM, FFN_POST_NORM_BIAS, FFN_PARAMS };
/* clang-format off */
enum ffn_buffer {
	FFN_INPUT, FFN_NORM_MEAN, FFN_NORM_RSTD, FFN_NORM_OUT,
	FFN_OUT, FFN_POST_MEAN, FFN_POST_RSTD, FFN_BUFFERS,
};
/* clang-format on */

/* The first and the last parameters of both. */
void ffn_norm_params(struct param_list *to, const struct model_config *c, int first);
void ffn_post_norm_params(struct param_list *to, const struct model_config *c, int first);

/* norm_out: the output of the norm is held in 16 bits. */
void ffn_buffers(struct buffer_list *to, const struct sizes *z, int first, bool norm_out);

/* clang-format off */
/* The norms of the input and of the branch of a block whose numbers begin with `first`. */
#define FFN_NORM_OF(first) \
	{ (first) + FFN_NORM, (first) + FFN_NORM_BIAS, (first) + FFN_NORM_MEAN, \
	    (first) + FFN_NORM_RSTD, (first) + FFN_INPUT, (first) + FFN_NORM_OUT }
#define FFN_POST_NORM_OF(first) \
	{ (first) + FFN_POST_NORM, (first) + FFN_POST_NORM_BIAS, (first) + FFN_POST_MEAN, \
	    (first) + FFN_POST_RSTD, (first) + FFN_OUT, BUF_BRANCH }
/* clang-format on */

#endif
