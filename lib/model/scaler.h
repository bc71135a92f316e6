/*
 * scaler.h - dynamic loss scaling of fp16
 */
#ifndef LIB_MODEL_SCALER_H
#define LIB_MODEL_SCALER_H

#include <stdbool.h>
#include <stdint.h>

/* The scale multiplies the mean loss of a batch, as Megatron-LM's does without
 * --calculate-per-token-loss: a token's loss is multiplied by scale / tokens. */
struct scaler {
	bool dynamic;
	double scale, min_scale;
	double tokens; /* of a global batch, masked or not */
	int64_t growth_interval,
	    hysteresis; /* clean steps before growth; overflows before halving */
	int64_t growth, hysteresis_left;
};

/* After a step: overflow says that a gradient was not finite. The first hysteresis - 1 overflows
 * leave the scale as it is, each later one halves it; a full growth interval of clean steps doubles
 * it and restores the hysteresis. A fixed scale never changes. Rule: Megatron-LM
 * core/optimizer/grad_scaler.py. */
void scaler_update(struct scaler *s, bool overflow);

#endif
