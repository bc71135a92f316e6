/* temp_sweep.h - removing the temporary files and directories that ended processes left */
#ifndef BASE_TEMP_SWEEP_H
#define BASE_TEMP_SWEEP_H

#include "lib/base/temp.h"

/* Removes temporary files and directories from dir; what cannot be removed is left. */
void temp_sweep(const char *dir, enum temp_owner whose);
/* The same, of dead processes, from the directory that path lies in. */
void temp_sweep_beside(const char *path);

#endif
