/*
 * direct.h - a stream that writes past the file cache
 *
 * For programs that copy more than memory holds, once: the kernel neither copies the bytes nor
 * keeps them, which costs more processor time than all the rest. The stream cannot seek or read.
 */
#ifndef BASE_DIRECT_H
#define BASE_DIRECT_H

#include <stdio.h>

struct direct;

/* A stream that appends to an empty file open as fd, which stays the caller's; NULL where the file
 * system is not known to write well so. A failed write sets the stream's error flag. */
struct direct *direct_open(int fd, FILE **out);
/* Writes what is left, after which nothing can be written; -1 with errno. */
int direct_finish(struct direct *d);
/* After the stream is closed. NULL is ignored. */
void direct_free(struct direct *d);

#endif
