/* router.h - the router of a layer with experts */
#ifndef TRAIN_LAYERS_ROUTER_H
#define TRAIN_LAYERS_ROUTER_H

#include "train/layers/layer.h"
#include "train/layers/norm.h"

/* Chooses the experts of the rows of x [R,h]: MOE_TOPK, its weights, places and counts. A pass
 * that recomputes follows the top-k indices of the first time. */
void router_forward(const struct layer *l, struct step *s, const struct tensor *x);
/* From MOE_DTOPK_WEIGHT: f->dx [R,h] += the gradient of f->x, the input; and that of the router.
 * Collective over tensor and context ranks. */
void router_backward(const struct layer *l, struct step *s, const struct norm_flow *f);
/* The tokens of a balancing group. */
double router_group_tokens(const struct run_plan *p);

#endif
