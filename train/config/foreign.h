/*
 * foreign.h - what mtrain makes of the options of other programs
 *
 * One row for each name (foreign_list.h), found by opt_foreign_find.
 */
#ifndef TRAIN_CONFIG_FOREIGN_H
#define TRAIN_CONFIG_FOREIGN_H

#include "lib/base/opt.h"

/* For opt_parse.foreign. */
extern const struct opt_foreigners mtrain_foreign;

/* NULL: no other program's option that is known. Dashes at the front are not part of the name;
 * '_' equals '-'. */
const struct opt_foreign *foreign_find(const char *name);

#endif
