/*
 * latent.h - queries, keys and values from latents
 */
#ifndef TRAIN_LAYERS_LATENT_H
#define TRAIN_LAYERS_LATENT_H

#include "train/layers/layer.h"

/* x [R,h] is the output of the block's norm. forward saves the latents of its rows and makes a->q,
 * k and v of all T, recompute makes these from what is saved. Tensor ranks gather rows. */
void latent_forward(
    const struct layer *l, struct step *s, const struct attention *a, const struct tensor *x);
void latent_recompute(
    const struct layer *l, struct step *s, const struct attention *a, const struct tensor *x);
/* From g->dq, dk and dv, which change, the gradients of weights and dx [R,h], written. Collective
 * over tensor ranks. */
void latent_backward(const struct layer *l, struct step *s, const struct attention_grad *g,
    const struct tensor *x, const struct tensor *dx);

#endif
