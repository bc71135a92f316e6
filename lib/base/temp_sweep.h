/* temp_sweep.h - removing the temporary files and directories that ended processes left */
#ifndef BASE_TEMP_SWEEP_H
#define BASE_TEMP_SWEEP_H

#include "lib/base/temp.h"

/* Removes temporary files and directories from dir, after the names in dir are on the disk; errors
 * are ignored. */
void temp_sweep(const char *dir, enum temp_owner whose);
/* The same for those of dead processes, in the directory of path. */
void temp_sweep_beside(const char *path);

#endif
