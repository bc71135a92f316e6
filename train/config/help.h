/*
 * help.h - what --help and --completion print
 */
#ifndef TRAIN_CONFIG_HELP_H
#define TRAIN_CONFIG_HELP_H

#include "train/config/train_config.h"

/* --help on standard output: one screen, or what was asked; ends the program where a word after it
 * means nothing. Or, with want_mdoc, the option list of the manual. */
void train_help(const struct train_config *c);
/* --completion on standard output; returns the exit status. */
int train_completion(const struct train_config *c);

#endif
