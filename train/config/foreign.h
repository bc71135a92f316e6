/*
 * foreign.h - what mtrain makes of the options of other programs
 *
 * One row for each name (foreign_list.h), which opt_foreign_find finds.
 */
#ifndef TRAIN_CONFIG_FOREIGN_H
#define TRAIN_CONFIG_FOREIGN_H

#include "lib/base/opt.h"

/* For opt_parse.foreign. */
extern const struct opt_foreigners mtrain_foreign;

#endif
