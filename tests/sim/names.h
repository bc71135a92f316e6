/* names.h - where a path leads */
#ifndef SIM_NAMES_H
#define SIM_NAMES_H

#include "tests/sim/files.h"

/* What a path leads to, for the process that runs. */
struct place {
	char path[512];   /* absolute, without "." and ".." */
	struct node *dir; /* NULL: there is no such directory; of a root too */
	char name[NAME_SIZE];
	struct node *node; /* NULL: there is nothing of this name */
	int err;           /* why there is no directory: ENOENT, ENOTDIR, ENAMETOOLONG */
};
void place_find(struct place *p, const char *path);

#endif
