/*
 * tokenizer.h - the tokenizer of a run
 */
#ifndef TRAIN_CONFIG_TOKENIZER_H
#define TRAIN_CONFIG_TOKENIZER_H

#include "train/config/train_config.h"

/* Opens the tokenizer that the options ask for, if they do. A dry run notes one that is not
 * here. */
int train_open_tokenizer(struct train_config *c, struct err *e);
/* That --fim-data has text to rearrange, and a tokenizer with its tokens. */
int train_check_fim(const struct train_config *c, struct err *e);
/* Reads --stop-token-ids, which must be of the tokenizer, and checks --stop. */
int train_read_stops(struct train_config *c, struct err *e);
/* True when the line names a tokenizer that is not open, for an error: what depends on it is not
 * known. */
bool train_lacks_tokenizer(const struct train_config *c);

#endif
