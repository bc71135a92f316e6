/* hub.h - names of a model hub, which are no paths here, and what its tools leave on disk: nothing
 * is downloaded */
#ifndef BASE_HUB_H
#define BASE_HUB_H

#include "lib/base/err.h"
#include "lib/base/io.h"

/* When path does not exist and has the form of a hub's name, OWNER/NAME: -1 with the reason, which
 * ends in what to give, such as "a directory with its config.json". Else 0. */
int hub_check(const char *path, const char *give, struct err *e);
/* The directory that path names: of the root of a hub's cache (models--OWNER--NAME) the snapshot
 * that refs/main names, else the only one; else path itself. -1 with the reason. */
int hub_snapshot(const char *path, char out[IO_PATH], struct err *e);
/* -1 with the reason when the file, which may be missing, is a pointer of Git LFS. */
int hub_check_pointer(const char *path, struct err *e);

#endif
