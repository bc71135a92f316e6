/*
 * gain.h - the numbers of the parameter and the buffer of a layer's gains
 */
#ifndef MODEL_BLOCK_GAIN_H
#define MODEL_BLOCK_GAIN_H

#include "lib/model/block/buffers.h"

enum gain_param { GAIN_WEIGHT = BLOCK_gain << BLOCK_SHIFT };
enum gain_buffer { GAIN_INPUT = BLOCK_gain << BLOCK_SHIFT };

#endif
