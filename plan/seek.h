/*
 * seek.h - the fastest plans that fit, and those that tie with the last of them
 */
#ifndef PLAN_SEEK_H
#define PLAN_SEEK_H

#include "plan/candidate.h"

/* What searches of one model, device and batch that differ in their ranks find alike, by which the
 * next is faster. */
struct found;

/* The model must outlive it. */
struct found *found_new(const struct model_config *c);
void found_free(struct found *f);
/* Fills items, which are in no order, legal, refusals, and where none fits the smallest plan.
 * bf16_moments: all plans have moments of 16 bits. */
void seek(struct search *s, const struct search_input *in, bool bf16_moments);

#endif
