/*
 * mtp.h - the numbers of the parameters and buffers with which a layer after the head begins
 */
#ifndef MODEL_BLOCK_MTP_H
#define MODEL_BLOCK_MTP_H

#include "lib/model/block/buffers.h"

enum mtp_param {
	MTP_EMBEDDING_NORM = BLOCK_mtp << BLOCK_SHIFT,
	MTP_EMBEDDING_NORM_BIAS,
	MTP_HIDDEN_NORM,
	MTP_HIDDEN_NORM_BIAS,
	MTP_PROJECTION,
};

enum mtp_buffer {
	MTP_HIDDEN = BLOCK_mtp << BLOCK_SHIFT,
	MTP_HIDDEN_MEAN,
	MTP_HIDDEN_RSTD,
	MTP_EMBEDDING,
	MTP_EMBEDDING_MEAN,
	MTP_EMBEDDING_RSTD,
	MTP_NORMED,
};

#endif
