/* temp_sweep.c - removing the temporary files and directories that ended processes left */
#include "lib/base/io.h"
#include "lib/base/str.h"
#include "lib/base/temp_sweep.h"

#include <dirent.h>
#include <stdlib.h>

/* A process that was killed may have given a directory its temporary name in exchange for another
 * one: until that is on the disk, a loss of power would bring back the first name, without
 * files. */
void
temp_sweep(const char *dir)
{
	struct str path = { 0 };
	struct dirent *de;
	DIR *d = opendir(dir);
	bool synced = false;

	while (d && (de = readdir(d))) {
		if (!temp_is_leaving(de->d_name, TEMP_OF_DEAD))
			continue;
		synced = synced || io_fsync_dir(dir, NULL) == 0;
		if (!synced)
			break;
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

	temp_sweep(dir);
	free(dir);
}
