/* contents.h - what an error says of the rank whose files are meant */
#ifndef TRAIN_DATA_CONTENTS_H
#define TRAIN_DATA_CONTENTS_H

#include "train/comm.h"

/* Adds this rank and its host to a message about what it read, unless the rank is alone: another
 * host may have other files under the same names. */
void data_name_rank(const struct comm *world, struct err *e);

#endif
