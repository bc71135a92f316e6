/*
 * temp.h - names of temporary files and directories beside what they are to become
 *
 * Their names are .NAME.HOST.PID.RANDOM.tmp in the directory of NAME, since a rename cannot cross
 * file systems: no other process, host or thread has the same, nobody can guess it, and what a dead
 * process left behind is known by it.
 */
#ifndef BASE_TEMP_H
#define BASE_TEMP_H

#include "lib/base/err.h"

#include <stdbool.h>

/* The bytes that a temporary name may have more than the path that it stands for, at most. */
enum { TEMP_EXTRA = 128 };

/* A new temporary name for path, which is no file yet; free() it. */
char *temp_name(const char *path);
/* Creates such a file, for reading and writing, and never through a link. Returns its descriptor
 * and the name in *name, which the caller frees; -1 with the reason. */
int temp_create(const char *path, char **name, struct err *e);

/* Whose leavings may be removed: those of this host's processes that have ended, or, for who holds
 * the directory, all. */
enum temp_owner { TEMP_OF_DEAD, TEMP_OF_ANYBODY };
/* Tells whether name, which has no directory before it, is one of ours that may be removed. */
bool temp_is_leaving(const char *name, enum temp_owner whose);

#endif
