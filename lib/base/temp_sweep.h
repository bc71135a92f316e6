/* temp_sweep.h - removing the temporary files and directories that ended processes left */
#ifndef BASE_TEMP_SWEEP_H
#define BASE_TEMP_SWEEP_H

#include "lib/base/temp.h"

/* Removes the temporary files and directories of ended processes of this host from dir, after the
 * names in dir are on the disk; errors are ignored. */
void temp_sweep(const char *dir);
/* The same in the directory of path. */
void temp_sweep_beside(const char *path);

#endif
