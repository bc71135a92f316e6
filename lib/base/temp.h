/*
 * temp.h - names of temporary files and directories
 *
 * Their names are .NAME.HOST.PID.RANDOM.tmp in the directory of NAME, since a rename cannot cross
 * file systems. A name is unique across processes, hosts and threads, cannot be guessed, and
 * identifies what a dead process left.
 */
#ifndef BASE_TEMP_H
#define BASE_TEMP_H

#include "lib/base/err.h"

#include <stdbool.h>

/* A temporary name is at most this many bytes longer than its path. */
enum { TEMP_EXTRA = 128 };

/* A new temporary name for path, without creating a file; free() it. */
char *temp_name(const char *path);
/* Creates such a file for reading and writing, never through a link. Returns its descriptor and the
 * name in *name, which the caller frees; -1 with the reason. */
int temp_create(const char *path, char **name, struct err *e);
/* The same for who creates many, and has asked process_host who it is. */
int temp_create_on(const char *host, const char *path, char **name, struct err *e);

/* Whose temporary files may be removed: those of ended processes of this host, or all of them, for
 * a process that holds the directory's lock. */
enum temp_owner { TEMP_OF_DEAD, TEMP_OF_ANYBODY };
/* True when name, without a directory, is such a temporary name that may be removed. */
bool temp_is_leaving(const char *name, enum temp_owner whose);

#endif
