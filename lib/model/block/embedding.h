/*
 * embedding.h - the numbers of the embedding's parameters
 */
#ifndef MODEL_BLOCK_EMBEDDING_H
#define MODEL_BLOCK_EMBEDDING_H

#include "lib/model/block/buffers.h"

enum embedding_param { EMBEDDING_WORDS = BLOCK_embedding << BLOCK_SHIFT, EMBEDDING_POSITIONS };

#endif
