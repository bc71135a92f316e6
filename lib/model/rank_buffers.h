/*
 * rank_buffers.h - the buffers of a rank that belong to no block, or to several
 */
#ifndef MODEL_RANK_BUFFERS_H
#define MODEL_RANK_BUFFERS_H

#include "lib/model/block/rows.h"

extern const struct named_row rank_rows[];

#endif
