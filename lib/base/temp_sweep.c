/* temp_sweep.c - removing the temporary files and directories that ended processes left */
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/base/temp_sweep.h"

#include <dirent.h>
#include <stdlib.h>

void
temp_sweep(const char *dir, enum temp_owner whose)
{
	struct str path = { 0 };
	struct dirent *de;
	DIR *d = opendir(dir);

	while (d && (de = readdir(d))) {
		if (!temp_is_leaving(de->d_name, whose))
			continue;
		str_clear(&path);
		str_addf(&path, "%s/%s", dir, de->d_name);
		io_remove_tree(path.buf, NULL);
	}
	if (d)
		closedir(d);
	str_release(&path);
}

void
temp_sweep_beside(const char *path)
{
	char *dir = io_parent(path);

	temp_sweep(dir, TEMP_OF_DEAD);
	free(dir);
}
