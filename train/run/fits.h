/*
 * fits.h - whether a plan fits a device, in words
 */
#ifndef TRAIN_RUN_FITS_H
#define TRAIN_RUN_FITS_H

#include "train/config/train_config.h"

/* After --dry-run's table: notes on the memory of the ranks of each stage [stages] in bytes, the
 * precision, and whether the fullest fits --gpu. Returns EXIT_FAILED if it does not. */
int fits(const struct train_config *c, int64_t world_size, const uint64_t *bytes);

#endif
