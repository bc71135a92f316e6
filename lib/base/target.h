/*
 * target.h - the file that a program makes, and what it may replace
 *
 * Without permission nothing is replaced, also not what appears while the program works. With it a
 * regular file is; a symbolic link is not followed and not replaced, as it may stand for another
 * file than the one that was meant, and neither is anything else.
 */
#ifndef BASE_TARGET_H
#define BASE_TARGET_H

#include "lib/base/outfile.h"

enum { TARGET_HEAD = 64 }; /* bytes; the most by which a kind is recognised */

/* 0 when nothing has this name; 1 when a regular file has; -1 with the reason when something else
 * has, or a link. */
int target_look(const char *path, struct err *e);
/* 0 when the file may be made: nothing has its name or, with replace, a regular file has. */
int target_check(const char *path, bool replace, struct err *e);
/* The same, and a file that is replaced must be of the kind: it begins with these bytes. what: "a
 * list of bad lines". */
struct target_kind {
	const char *what, *head;
	size_t bytes; /* of head */
};
int target_check_kind(
    const char *path, const struct target_kind *kind, bool replace, struct err *e);
/* True when it is a regular file that begins so. */
bool target_begins(const char *path, const void *head, size_t bytes);
/* True when both names lead to the same file or directory. */
bool target_is(const char *path, const char *other);
/* True when path is the directory, or would be somewhere in it: what is not there yet lies in the
 * nearest directory above it that is. */
bool target_inside(const char *path, const char *dir);
/* Renames a file to a name that nothing has; -1 with the reason, and nothing changed, when it is
 * taken. */
int target_rename(const char *from, const char *to, struct err *e);
/* outfile_commit, with the promise of target_check. */
int target_commit(struct outfile *o, bool replace, struct err *e);
/* Writes a small file whole, with the same promise. */
int target_write(const char *path, bool replace, const void *bytes, size_t len, struct err *e);

/*
 * Looks at all files of a directory that may be replaced. 0: there are none; 1: all are regular and
 * have names that fit one of the patterns of fnmatch(3), the last of which is NULL; -1 with the
 * reason, which names another one. A pattern with a slash is of a file in a directory of it. The
 * file "lock" and temporary files do not count.
 */
int target_look_inside(const char *dir, const char *const *patterns, struct err *e);
/* True when a file system is mounted there, so that the directory cannot be renamed. */
bool target_is_mounted(const char *dir);

#endif
