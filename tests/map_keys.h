/* map_keys.h - the files of keys in a directory of index maps */
#ifndef TESTS_MAP_KEYS_H
#define TESTS_MAP_KEYS_H

#include "lib/base/io.h"
#include "lib/base/str.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Their contents, added to out unless it is NULL; their number. */
static inline int
read_keys(const char *dir, struct str *out)
{
	const struct dirent *de;
	DIR *d = opendir(dir);
	char path[1024], *text;
	int n = 0;

	while (d && (de = readdir(d))) {
		if (!strstr(de->d_name, "-keys.txt"))
			continue;
		n++;
		snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
		if (out && io_read_file(path, 0, &text, NULL, NULL) == 0) {
			str_adds(out, text);
			free(text);
		}
	}
	if (d)
		closedir(d);
	return n;
}

/* Leaves a cache as Megatron-LM writes it; returns the number of files removed. */
static inline int
remove_keys(const char *dir)
{
	const struct dirent *de;
	DIR *d = opendir(dir);
	char path[1024];
	int n = 0;

	while (d && (de = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
		n += strstr(de->d_name, "-keys.txt") && unlink(path) == 0;
	}
	if (d)
		closedir(d);
	return n;
}

#endif
