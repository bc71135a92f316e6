/* suspects.h - naming the ranks where something went wrong, with their machines */
#ifndef TRAIN_WATCH_SUSPECTS_H
#define TRAIN_WATCH_SUSPECTS_H

#include "lib/base/str.h"
#include "train/backend.h"
#include "train/comm.h"

/* Collective over the world. Appends on rank 0 what each rank says of itself, leaving out empty
 * texts: "rank 1 (node1, cuda 3): WHAT; rank 5 (node1, cuda 7): WHAT"; of many ranks only the
 * first. */
void suspects(struct comm *world, const struct backend *b, const char *what, struct str *out);

#endif
